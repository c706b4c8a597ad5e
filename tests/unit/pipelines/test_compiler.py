"""Programs that are kept, so that they are not checked again."""

from tests.unit.pipelines.test_modules import ALICE, catalogue

from pipelines.programs import Compiler

FIRST, SECOND, THIRD = (f"in {name}: Int\nout {name}" for name in "abc")


async def test_programs_that_were_used_last_are_kept_in_the_room_there_is() -> None:
    compiler = Compiler(catalogue("shop.prices"), room=2 * (100 + len(FIRST)))
    first, second = [await compiler.compile(source, ALICE) for source in (FIRST, SECOND)]
    assert await compiler.compile(FIRST, ALICE) is first
    await compiler.compile(THIRD, ALICE)
    assert await compiler.compile(FIRST, ALICE) is first
    assert await compiler.compile(SECOND, ALICE) is not second


async def test_a_change_of_the_catalogue_forgets_programs() -> None:
    agents = catalogue("shop.prices")
    compiler = Compiler(agents)
    before = await compiler.compile(FIRST, ALICE)
    agents.changed("shop.prices", None)
    after = await compiler.compile(FIRST, ALICE)
    assert after is not before
    assert await compiler.compile(FIRST, ALICE) is after
