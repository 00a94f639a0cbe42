"""Rules of every route, tested by introspection: tokens, scopes, names, bodies, problem documents."""

import re
from pathlib import Path

import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.errors import SameluckError
from sameluck.service.api_tokens import SCOPES
from sameluck.service.app import create_app
from sameluck.service.problems import STATUSES, status_of

with sl.open("sqlite://") as store:
    DOCUMENT = create_app(store).openapi()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
OPEN = {"GET /healthz", "GET /readyz"}
CLOSED = sorted(OPERATIONS.keys() - OPEN)
WITH_BODY = [operation for operation in CLOSED if "requestBody" in OPERATIONS[operation]]
NAMED = [
    operation
    for operation in CLOSED
    if "/experiments/{name}" in operation or "/assignments/{id}" in operation
]
# The smallest body that a route takes, where one is required.
BODIES = {
    "assign": {"unit": "u"},
    "assign_batch": {"units": ["u"]},
    "void_units": {"units": ["u"]},
    "erase_unit": {"unit": "u"},
    "reward": {"value": 1},
    "reward_batch": {"rewards": []},
    "add_policy": {"name": "new", "policy": "uniform"},
    "preview_policy": {"name": "new", "policy": "uniform"},
    "replace_policy_code": {"policies": ["ucb"]},
    "preview_policy_code": {"policies": ["ucb"]},
    "extend_windows": {"seconds": 1},
    "create_token": {"name": "t", "scopes": ["read"]},
    "create_experiment": {},
}


def scope_of(operation):
    (requirement,) = OPERATIONS[operation]["security"]
    (scope,) = requirement["token"]
    return scope


def call(served, operation, headers, **content):
    method, path = operation.split()
    path = re.sub(r"{\w+}", "none", path)
    return served.http.request(method, path, headers=headers, **content)


def select_function_of(operation):
    found = OPERATIONS[operation]
    return {"json": BODIES[found["operationId"]]} if found["operationId"] in BODIES else {}


def assert_problem(answer, status, code):
    document = answer.json()
    assert (answer.status_code, document["code"]) == (status, code), document
    assert answer.headers["content-type"] == "application/problem+json"
    assert document.keys() == {"type", "title", "status", "code", "detail"}
    assert document["status"] == status
    assert "Traceback" not in answer.text
    return document


def test_the_routes_are_many_and_their_names_differ():
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(names) == len(set(names)) >= 30
    assert BODIES.keys() <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize("operation", CLOSED)
def test_a_route_needs_a_token_with_its_scope(shared, operation):
    content, scope = select_function_of(operation), scope_of(operation)
    for wrong in ({"Authorization": ""}, {"Authorization": "Bearer sl_" + "0" * 64}):
        answer = call(shared, operation, wrong, **content)
        assert_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    for other in SCOPES.keys() - {scope}:
        document = assert_problem(
            call(shared, operation, shared.as_(other), **content), 403, "wrong_scope"
        )
        assert repr(scope) in document["detail"]
    allowed = call(shared, operation, shared.as_(scope), **content)
    assert allowed.status_code not in (401, 403)


@pytest.mark.parametrize("operation", sorted(OPEN))
def test_the_others_need_none_and_tell_nothing(shared, operation):
    answer = call(shared, operation, {"Authorization": ""})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.slow
@pytest.mark.parametrize("operation", WITH_BODY)
def test_a_body_that_is_no_json_or_has_an_unknown_field_is_refused(shared, operation):
    headers = shared.as_(scope_of(operation))
    json_type = {**headers, "Content-Type": "application/json"}
    assert_problem(call(shared, operation, json_type, content=b"{"), 400, "malformed")
    assert_problem(call(shared, operation, json_type, content=b"[" * 100_000), 400, "malformed")
    assert_problem(call(shared, operation, headers, json={"colour": 1}), 422, "invalid")
    assert_problem(call(shared, operation, headers, content=b"{}"), 422, "invalid")
    large = b" " * ((1 << 20) + 1)
    assert_problem(call(shared, operation, json_type, content=large), 413, "body_too_large")
    unannounced = call(shared, operation, json_type, content=in_chunks(large))
    assert_problem(unannounced, 413, "body_too_large")


async def in_chunks(content):
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


@pytest.mark.parametrize("operation", NAMED)
def test_a_name_that_does_not_exist_is_404(shared, operation):
    answer = call(
        shared, operation, shared.as_(scope_of(operation)), **select_function_of(operation)
    )
    document = assert_problem(answer, 404, "unknown")
    assert "socks" not in document["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_response_has_the_headers_of_the_guard(shared, operation):
    answer = call(shared, operation, shared.as_("read"))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_a_wrong_path_or_method_is_a_problem_too(shared):
    assert_problem(shared.http.get("/v1/nothing"), 404, "no_such_route")
    assert_problem(shared.http.delete("/v1/experiments"), 405, "method_not_allowed")


def test_every_error_of_sameluck_has_a_status():
    def classes(base):
        return {base, *(leaf for child in base.__subclasses__() for leaf in classes(child))}

    for error_class in classes(SameluckError) - {SameluckError}:
        error = error_class("x", "x") if error_class is sl.Conflict else error_class("x")
        assert status_of(error) in STATUSES.values()
    assert status_of(sl.TooLarge("x")) == 422
    assert status_of(sl.Misconfigured("x")) == 503


def test_what_was_not_expected_is_logged_and_not_shown(shared, caplog, monkeypatch):
    def failing(*_):
        raise RuntimeError("the secret of line 7")

    monkeypatch.setattr(shared.store, "statuses", failing)
    answer = shared.http.get("/v1/experiments")
    assert_problem(answer, 500, "internal_error")
    assert "secret" not in answer.text
    assert "the secret of line 7" in caplog.text


def test_the_schemas_of_requests_forbid_other_fields():
    schemas = DOCUMENT["components"]["schemas"]
    for operation in nonempty(WITH_BODY):
        text = str(OPERATIONS[operation]["requestBody"])
        (name,) = re.findall(r"schemas/(\w+)", text)
        assert schemas[name]["additionalProperties"] is False


def test_only_one_module_of_the_service_calls_a_store():
    folder = Path(sl.__file__).parent / "service"
    users = {path.name for path in folder.rglob("*.py") if "self.store." in path.read_text()}
    assert users == {"loaded_experiments.py"}
