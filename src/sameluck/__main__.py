"""The `sameluck` command; `python -m sameluck` is the same."""

import os
import sys
import threading


def main() -> int:
    """Run the command line; if its packages are missing, print the extra to install."""
    try:
        from sameluck import cli
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write("the sameluck command needs: pip install 'sameluck[cli]'\n")
        return 2
    except KeyboardInterrupt:
        return 130
    code = cli.run(sys.argv[1:])
    if code == 130 and threading.active_count() > 1:
        # After Ctrl-C, Python would wait for the replications that still run in threads.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
