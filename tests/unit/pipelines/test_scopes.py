"""Who may do what with pipelines."""

import pytest

from pallas_contracts.errors import Denied, Rejected
from pallas_contracts.turns import Principal
from pipelines.settings import PipelinesSettings
from pipelines.storing.scopes import Scope, Scopes

PEER, USER = Principal(id="127.0.0.1"), Principal(type="user", id="alice")
TEAM, TURN, TOKEN = (Principal(type=kind, id="x") for kind in ("team", "turn", "token"))
SECRETS = {role: f"{role.lower()}-key-with-a-lot-of-characters" for role in ("ReadOnly", "Execute", "Write", "Admin")}
KEYS = ", ".join(f"{secret}:{role}" for role, secret in SECRETS.items())


def scopes(**settings: str) -> Scopes:
    """The scopes by these variables, without their prefix."""
    return Scopes.of(PipelinesSettings.from_env({f"PALLAS_{name.upper()}": value for name, value in settings.items()}))


@pytest.mark.parametrize("auth", ["required", "optional", "off"])
def test_by_default_known_callers_may_write_and_nobody_is_admin(auth: str) -> None:
    found = scopes(gateway_auth=auth)
    assert {found.scope_of(each) for each in (USER, TEAM, TOKEN)} == {Scope.WRITE}
    assert found.scope_of(TURN) is Scope.EXECUTE
    assert found.scope_of(PEER) is (Scope.WRITE if auth == "off" else Scope.NONE)


def test_settings_name_callers_and_each_scope_includes_those_before_it() -> None:
    found = scopes(pipeline_read="user", pipeline_execute="", pipeline_write="team:x", pipeline_admin="token:root")
    assert found.scope_of(USER) is Scope.EXECUTE  # an empty variable is one that is not set
    assert found.scope_of(TEAM) is Scope.WRITE
    assert found.scope_of(Principal(type="token", id="root")) is Scope.ADMIN
    narrow = scopes(pipeline_read="user", pipeline_execute="team", pipeline_write="team:a")
    assert narrow.scope_of(USER) is Scope.READ
    assert narrow.scope_of(TOKEN) is Scope.NONE


def test_what_a_caller_may_not_do_is_said_with_the_scope_that_it_lacks() -> None:
    found = scopes(pipeline_read="user", pipeline_execute="team", pipeline_write="team", gateway_auth="required")
    found.check(USER, Scope.READ)
    for caller, sentence in ((USER, "has the scope `read`"), (PEER, "has no scope")):
        with pytest.raises(Denied, match=f"needs the scope `write`; the caller {sentence}") as denied:
            found.check(caller, Scope.WRITE)
        assert denied.value.code == "scope"


def test_a_key_has_the_scope_of_its_role_and_nothing_else() -> None:
    found = scopes(constellation_api_keys=KEYS)
    expected = (Scope.READ, Scope.EXECUTE, Scope.WRITE, Scope.ADMIN)
    for secret, scope in zip(SECRETS.values(), expected, strict=True):
        caller = found.principal_of(secret)
        assert caller is not None
        assert (found.scope_of(caller), caller.type, len(caller.id)) == (scope, "token", 26)
        assert secret not in repr(found) + repr(caller)
    assert found.principal_of("read-key-with-a-lot-of-characters") is None
    assert found.principal_of("schlüssel") is None


def test_with_keys_a_caller_without_one_may_nothing_unless_a_setting_says_so() -> None:
    assert scopes(constellation_api_keys=KEYS).scope_of(PEER) is Scope.NONE
    assert scopes(constellation_api_keys=KEYS, pipeline_read="peer").scope_of(PEER) is Scope.READ


@pytest.mark.parametrize(
    "keys",
    ["short:Admin", "a-key-with-enough-characters", "a-key-with-enough-characters:Root", f"{KEYS},{KEYS}", f"{KEYS},"],
)
def test_bad_keys_name_the_setting_and_never_a_key(keys: str) -> None:
    with pytest.raises(Rejected, match="PALLAS_CONSTELLATION_API_KEYS: ") as rejected:
        scopes(constellation_api_keys=keys)
    assert rejected.value.code == "bad_settings"
    assert "characters:" not in rejected.value.message
    assert "Root" not in rejected.value.message


def test_a_word_that_names_no_callers_is_refused() -> None:
    with pytest.raises(Rejected, match="PALLAS_PIPELINE_ADMIN: 'everybody' is none of"):
        scopes(pipeline_admin="everybody")
