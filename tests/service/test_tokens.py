"""Tokens: shown once, kept as digests, named, revoked; and the checks of Host and Origin."""

import asyncio
import re
import time

import pytest

import sameluck as sl
from sameluck.service.access import Service
from sameluck.service.api_tokens import Tokens, digest


def test_a_token_is_shown_once_and_only_its_digest_is_kept(served):
    answer = served.http.post("/v1/tokens", json={"name": "shop", "scopes": ["reward", "serve"]})
    secret = answer.json()["token"]
    assert re.fullmatch("sl_[0-9a-f]{64}", secret)
    listed = served.http.get("/v1/tokens")
    assert secret not in listed.text
    shop = listed.json()["tokens"][-1]
    assert (shop["name"], shop["scopes"]) == ("shop", ["serve", "reward"])
    rows = served.store.database.read(lambda t: t.fetch_all(tuple, "api_keys"))
    assert digest(secret) in str(rows)
    assert secret not in str(rows)


def test_a_revoked_token_is_refused_and_its_name_is_not_used_again(served):
    headers = served.as_("read")
    assert served.http.get("/v1/experiments", headers=headers).status_code == 200
    for _ in range(2):
        assert served.http.delete("/v1/tokens/read").status_code == 204
    assert served.http.get("/v1/experiments", headers=headers).status_code == 401
    again = served.http.post("/v1/tokens", json={"name": "read", "scopes": ["read"]})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert served.http.delete("/v1/tokens/nobody").json()["code"] == "unknown"


def test_a_token_of_another_process_is_known_at_once_and_revoked_within_a_second(
    served, monkeypatch
):
    assert served.http.get("/v1/experiments").status_code == 200
    other = Tokens(served.store.database)
    headers = {"Authorization": f"Bearer {other.create('late', ['read'])}"}
    assert served.http.get("/v1/experiments", headers=headers).status_code == 200
    monkeypatch.setattr("sameluck.service.api_tokens.FRESH_SECONDS", 0.0)
    assert served.http.get("/v1/experiments", headers=headers).status_code == 200
    other.revoke("late")
    assert served.http.get("/v1/experiments", headers=headers).status_code == 401


def test_unknown_tokens_cost_few_readings_of_the_database(served, monkeypatch):
    tokens, readings = served.tokens, []
    read = tokens.refresh
    monkeypatch.setattr(tokens, "refresh", lambda: (readings.append(time.monotonic()), read())[1])
    monkeypatch.setattr("sameluck.service.api_tokens.FRESH_SECONDS", 1e9)
    monkeypatch.setattr("sameluck.service.api_tokens.REFUSED_SECONDS", 1e9)
    service = served.app.state.service

    async def ask(secrets):
        return await asyncio.gather(*(service.holder(secret) for secret in secrets))

    asyncio.run(ask([served.all]))
    readings.clear()
    guesses = [f"sl_{number:064x}" for number in range(500)]
    assert asyncio.run(ask([*guesses, "sl_short"])) == [None] * 501
    assert 1 <= len(readings) <= 2  # a reading that began before a request does not count for it
    asyncio.run(ask(guesses))
    assert len(readings) <= 2  # remembered
    asyncio.run(ask([f"sl_{10**6:064x}"]))
    asyncio.run(ask([f"sl_{10**6 + 1:064x}"]))
    assert readings[-1] - readings[-2] >= 0.05


def test_a_token_that_cannot_be_looked_up_is_not_refused(served):
    """The caller may repeat its call: another process may have made the token."""
    database = Interruptible(served.store.database)
    tokens = Tokens(database)
    tokens.refresh()
    secret = Tokens(served.store.database).create("late", ["read"])
    database.away = True
    other = type(served)(served.store, names=False, tokens=tokens)
    headers = {"Authorization": f"Bearer {secret}"}
    answer = other.http.get("/v1/experiments", headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    database.away = False
    assert other.http.get("/v1/experiments", headers=headers).status_code == 200
    other.http.close()


class Interruptible:
    """A database whose reads fail while it is away."""

    def __init__(self, database):
        self.write, self._read, self.away = database.write, database.read, False

    def read(self, work):
        if self.away:
            raise sl.Unavailable("away")
        return self._read(work)


def test_a_known_token_stays_valid_while_the_database_is_away(served):
    database = Interruptible(served.store.database)
    known, never_read = Tokens(database), Tokens(database)
    known.refresh()
    database.away = True
    known.refresh()
    assert known.holder(served.secrets["read"]).name == "read"
    for tokens, status in ((known, 200), (never_read, 503)):
        other = type(served)(served.store, names=False, tokens=tokens)
        answer = other.http.get("/v1/experiments", headers=served.as_("read"))
        other.http.close()
        assert answer.status_code == status


def test_of_many_requests_at_one_moment_one_reads_the_tokens(served, monkeypatch):
    tokens, started = Tokens(served.store.database), []
    read = tokens.refresh
    monkeypatch.setattr(tokens, "refresh", lambda: (started.append(1), time.sleep(0.05), read()))
    service = Service(None, tokens, None, None)

    async def ask():
        await asyncio.gather(*(service.fresh_tokens() for _ in range(20)))

    asyncio.run(ask())
    assert len(started) == 1


@pytest.mark.parametrize("header", ["Basic sl_x", "Bearer", "Bearer x", "bearer sl_é"])
def test_other_headers_are_no_token(shared, header):
    headers = {"Authorization": header.encode()}
    assert shared.http.get("/v1/experiments", headers=headers).status_code == 401


def test_names_and_scopes_are_checked(served):
    for name, scopes in (("", ["read"]), ("a\nb", ["read"]), ("a", []), ("a", ["admin"])):
        with pytest.raises(sl.Invalid):
            served.tokens.create(name, scopes)


@pytest.mark.parametrize("name", ["sameluck serve", " Sameluck  SERVE "])
def test_no_token_has_the_name_of_the_one_that_the_command_prints(served, name):
    body = {"name": name, "scopes": ["manage"]}
    answer = served.http.post("/v1/tokens", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "choose another" in answer.json()["detail"]
    assert name not in [token.name for token in served.tokens.list()]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "",
        "[::2]",
        "127.0.0.2",
        "127.0.0.1:80@evil.example",
        "localhost:evil.example",
        "[::1]evil.example",
        "localhost, evil.example",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
def test_another_host_is_refused(shared, host, method):
    answer = shared.http.request(method, "/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (403, "host_refused")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321"])
def test_the_loopback_address_is_accepted_by_all_its_names(shared, host):
    assert shared.http.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Content-Type"])
def test_a_header_of_two_values_is_refused(shared, name):
    own = {"Host": "localhost", "Origin": "http://localhost"}.get(name, "one")
    headers = [("Host", "localhost"), (name, "http://evil.example"), (name, own), ("Accept", "a")]
    answer = shared.http.get("/healthz", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    several = [("Host", "localhost"), ("Accept", "a"), ("Accept", "b")]
    assert shared.http.get("/healthz", headers=several).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "file://", "http://[", ""]
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_another_origin_is_refused_for_every_method(shared, origin, method):
    answer = shared.http.request(method, "/v1/experiments", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
    same = shared.http.get("/healthz", headers={"Origin": "http://localhost"})
    assert same.status_code == 200
    assert "access-control-allow-origin" not in same.headers
