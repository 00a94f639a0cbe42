"""The `sameluck` command; `python -m sameluck` is the same."""

import sys


def main() -> int:
    """Run the command line; if its packages are missing, print the extra to install."""
    try:
        from sameluck import cli  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write("the sameluck command needs: pip install 'sameluck[cli]'\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return cli.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
