"""The attempts of one job on a small program that is held where a test kills it (`support.breakpoint_program`)."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from support.polling import WAIT_SECONDS, wait_for
from trainer.replicas import Replicas

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader, DataCursor, FinalRecord, read_record

if TYPE_CHECKING:
    from trainer.replicas import Launch

EXAMPLES: Final = 13
"""Of the program; two workers take them in 4 steps of 2 each."""
BEGUN: Final = 4
"""The step of the checkpoint that all begin from."""
SAVES: Final = 6
"""The first step that is saved after it."""
DONE: Final = 12
ENDLESS: Final = 10**6


@dataclass
class Attempts:
    """The attempts of one job, one after the other, from a checkpoint of its first epoch."""

    launch: "Launch"
    roles: dict[str, int]
    directory: Path
    settings: dict[str, Any] = field(default_factory=dict)
    replicas: list[Replicas] = field(default_factory=list)

    @property
    def now(self) -> Replicas:
        return self.replicas[-1]

    def start(self, holds: Mapping[int, str], *, epochs: int = 3, saves: int = SAVES, **environ: str) -> None:
        """Start the next attempt, whose members stop at the places in `holds`; the others have `environ`."""
        environs = {number: dict(environ) for number in range(sum(self.roles.values()))}
        for number, places in holds.items():
            self._held(number).unlink(missing_ok=True)
            environs[number] = {"HOLD_AT": places, "HOLD_FILE": str(self._held(number))}
        settings = job(self.directory, len(self.replicas), epochs=epochs, saves=saves) | self.settings
        self.replicas.append(self.launch(self.roles, config={}, job=settings, environs=environs))

    def wait_for_output(self, number: int, text: str, times: int = 1) -> None:
        """Return when the outputs of a member, over all its starts, contain `text` so often."""
        wait_for(text, lambda: self.now.output(number).count(text) >= times, context=lambda: self.now.outputs)

    def until_held(self, number: int) -> None:
        """Return when a member is where it is to be held next."""

        def is_held() -> bool:
            assert self.now.processes[number].poll() is None, self.now.outputs
            return self._held(number).exists()

        wait_for("it to be held", is_held, context=lambda: self.now.outputs)

    def let_go(self, number: int) -> None:
        self._held(number).unlink()

    def kill(self, number: int) -> None:
        self.now.processes[number].send_signal(signal.SIGKILL)
        assert self.now.processes[number].wait(WAIT_SECONDS) == -signal.SIGKILL

    def stop(self, *numbers: int) -> None:
        """Stop members that have nothing to save, as a controller would."""
        for number in numbers:
            self.now.processes[number].send_signal(signal.SIGTERM)
        for number in numbers:
            assert self.now.processes[number].wait(WAIT_SECONDS) == 128 + signal.SIGTERM, self.now.outputs
            assert self.now.termination(number).reason == "Terminated"

    def start_again(self, number: int) -> None:
        """Start a member alone, which is not held any more."""
        self.now.environs[number].pop("HOLD_AT", None)
        self.now.start(number)

    def newest(self) -> int:
        """Return the step that the next attempt has to begin from."""
        record = CheckpointReader(self.directory).newest()
        assert record is not None
        return record.cursor.step

    def loses_its_peer(self, number: int) -> None:
        """Check how a member ends."""
        assert self.now.processes[number].wait(WAIT_SECONDS) == ExitCode.PEER_LOST, self.now.outputs
        assert self.now.termination(number).reason == "PeerLost"

    def ends(self) -> DataCursor:
        """Return where training has ended, having left nothing half behind."""
        assert set(self.now.wait(WAIT_SECONDS)) == {0}, self.now.outputs
        assert not list(self.directory.glob(".tmp-*"))
        final = FinalRecord.model_validate_json((self.directory / "final.json").read_bytes())
        return read_record(Path(final.path)).cursor

    def _held(self, number: int) -> Path:
        return self.directory.with_name(f"held-{number}")


def job(directory: Path, attempt: int = 0, *, epochs: int = 3, saves: int = SAVES) -> dict[str, Any]:
    """Return the settings of a replica; `saves` are the steps between two checkpoints."""
    training = {"program": "support.breakpoint_program:Line", "config": {"epochs": epochs, "batchSizePerReplica": 2}}
    checkpoint = {"directory": str(directory), "everySteps": saves}
    return {"training": training, "checkpoint": checkpoint, "attempt": attempt}
