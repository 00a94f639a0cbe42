"""Schemathesis over the OpenAPI document: no failure of the server, and every response as it is described."""

import hypothesis
import pytest
import schemathesis
from schemathesis import checks

import sameluck as sl
from sameluck.service.app import create_app

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
with sl.open("sqlite://") as store:
    DOCUMENT = create_app(store).openapi()
OPERATIONS = [
    result.ok() for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
]


def send(served, case):
    """Return the response to a case. About half of the cases name an existing experiment, to get further."""
    real = {"name": "socks", "id": served.some_id, "arm": "red"}
    for name, value in case.path_parameters.items():
        if name in real and len(str(value)) % 2:
            case.path_parameters[name] = real[name]
    values = case.as_transport_kwargs(base_url="http://localhost")
    sent = {name: values.get(name) for name in ("params", "headers", "json")}
    sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {served.all}"}
    if values.get("data") is not None:
        sent |= {"content": values["data"], "json": None}
    return served.http.request(values["method"], values["url"], **sent)


@pytest.fixture(scope="module")
def described(shared):
    shared.some_id = shared.assign("somebody").json()["id"]
    return shared


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_response_is_described(described, operation):
    @hypothesis.settings(
        max_examples=20,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def check(case):
        case.validate_response(send(described, case), checks=CHECKS)

    check()


def test_every_operation_is_tested():
    methods = {"get", "post", "put", "patch", "delete"}
    described = {
        f"{method.upper()} {path}"
        for path, operations in DOCUMENT["paths"].items()
        for method in methods & operations.keys()
    }
    assert {operation.label for operation in OPERATIONS} == described
