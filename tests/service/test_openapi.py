"""Schemathesis over the OpenAPI document: no failure of the server, and every response as it is described."""

import re

import hypothesis
import pytest
import schemathesis
from schemathesis import checks

import sameluck as sl
from nonempty import nonempty
from sameluck.service.app import create_app

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
# Operations that a document cannot describe fully: all text forms of an experiment; names that an experiment may have
# already; policies that it does not have any more.
REFUSABLE = ["add_policy", "create_experiment", "remove_policy"]
FORMS = [
    "ucb1",
    "uniform",
    "epsilon_greedy(epsilon=0.5)",
    "ucb1(alpha=1)",
]  # for any rewards in 0..1
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
with sl.open("sqlite://") as store:
    DOCUMENT = create_app(store).openapi()
OPERATIONS = [
    result.ok() for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
]


def refer(values, references):
    """Replace references to an experiment's arms, policies, periods and replications by others that it has."""
    if isinstance(values, dict):
        for name in references.keys() & values.keys():
            if values[name] is not None:
                values[name] = references[name]


def send(served, case):
    """Return the response to a case. About half of the cases name an existing experiment, to get further."""
    number, operation = len(str(case.body)), case.operation.definition.raw["operationId"]
    real = {"name": "socks", "id": served.some_id}
    for name, value in case.path_parameters.items():
        if name in real and len(str(value)) % 2:
            case.path_parameters[name] = real[name]
    refer(case.path_parameters, {"arm": "50%2F50"})
    if operation not in REFUSABLE:
        chosen = ["ucb", "greedy"] if operation in ("results", "runs_file") else ["greedy"]
        references = {"policies": chosen, "policy": FORMS[number % 4], "fallback": "red"}
        refer(case.body, {**references, "value": number % 11 / 10, "after_replications": 3})
        refer(case.query, {**references, "control": "ucb", "checkpoints": [2, 4], "replication": 1})
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
        refusable = operation.definition.raw["operationId"] in REFUSABLE
        accepted = [] if refusable else [checks.positive_data_acceptance]
        case.validate_response(send(described, case), checks=[*CHECKS, *accepted])

    check()


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_another_method_is_answered_with_the_methods_of_the_path(shared, path):
    described = {method.upper() for method in DOCUMENT["paths"][path]}
    filled = re.sub(r"{\w+}", "x", path)
    # A policy may be named "code": paths below /policies/ name a policy to remove.
    allowed = described | ({"DELETE"} if "/policies/" in path else set())
    for method in nonempty((METHODS | {"TRACE", "OPTIONS"}) - allowed):
        answer = shared.http.request(method, filled)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("reason", ["a\nb", "\x00", "\x7f", "\x1f"])
def test_control_characters_are_refused_as_the_document_says(shared, reason):
    text = DOCUMENT["components"]["schemas"]["Reason"]["properties"]["reason"]
    assert not re.match(text["pattern"], reason)
    answer = shared.http.post("/v1/experiments/socks/pause", json={"reason": reason})
    assert answer.status_code == 422
    answer = shared.http.delete("/v1/experiments/socks", params={"reason": reason})
    assert answer.status_code == 422


def test_every_operation_is_tested():
    assert len(OPERATIONS) == 41
    methods = {"get", "post", "put", "patch", "delete"}
    described = {
        f"{method.upper()} {path}"
        for path, operations in DOCUMENT["paths"].items()
        for method in methods & operations.keys()
    }
    assert {operation.label for operation in OPERATIONS} == described
