"""The commands of a page for the shell, run one after the other in a reader's clone, and what they leave behind."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.docs.console import ROOT, Shell
from tests.services.command import consume, topics, until

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: The first is what this is a part of; tests/services/test_examples_tests.py runs the tests of all examples.
_ELSEWHERE = ("make test", "penstock test ")

#: Whether a command without an end has done enough to get Ctrl-C, by what it has printed.
Enough = Callable[[str], bool]


def commands(page: Path) -> list[str]:
    """The commands in the blocks for the shell of a page."""
    return [line for block in _BLOCK.findall(page.read_text()) for line in block.splitlines()]


@dataclass(frozen=True)
class Topics:
    """The topics of a broker, which every page finds empty."""

    servers: str

    def clear(self) -> None:
        """Delete all topics."""
        names = self._names()
        admin = AdminClient({"bootstrap.servers": self.servers})
        for deleted in (admin.delete_topics(names) if names else {}).values():
            deleted.result(30)
        until(lambda: not self._names(), "the end of the topics")

    def contents(self) -> dict[str, list[bytes]]:
        """The values of each topic."""
        return {name: consume(self.servers, name) for name in self._names()}

    def size(self, name: str) -> int:
        """How many records a topic has; none if it is not there."""
        if name not in self._names():
            return 0
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "judge"})
        try:
            partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
            return sum(consumer.get_watermark_offsets(TopicPartition(name, each), timeout=10)[1] for each in partitions)
        finally:
            consumer.close()

    def _names(self) -> list[str]:
        return sorted(name for name in topics(self.servers) if not name.startswith("__"))


@dataclass
class Followed:
    """What the commands of a page printed, and what they left behind."""

    clone: Path
    printed: dict[str, str] = field(default_factory=dict)
    """By command, without its comment."""
    code: int = 0
    """The exit code of the last command: the first that failed."""
    topics: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """What the last command printed."""
        return list(self.printed.values())[-1]


@dataclass(frozen=True)
class Reader:
    """Somebody who has cloned the repository and runs what its pages say."""

    place: Path
    dev: Path
    topics: Topics
    stream: str
    """The address of an HTTP stream."""

    def follow(self, page: Path, enough: Enough | None = None, before: Followed | None = None) -> Followed:
        """Run the commands of a page up to the first that fails, in a new clone or in that of a page before it."""
        followed = Followed(before.clone if before else self._clone(page))
        shell = Shell(followed.clone, self.dev)
        try:
            for line in commands(page):
                if line.startswith(_ELSEWHERE):
                    continue
                text = re.sub(r"^make ", f"make -C {shlex.quote(str(ROOT))} ", line)
                text = text.replace("https://api.example/stream", self.stream)
                stop = self._end(line, enough)
                followed.code, printed = shell.run(f"export STREAM_TOKEN=a-token\n{text}", until=stop)
                followed.printed[line.partition(" #")[0].strip()] = printed
                if followed.code:
                    break
        finally:
            shell.end()
        followed.topics = self.topics.contents()
        return followed

    def _clone(self, page: Path) -> Path:
        """What a reader has: the examples, and the Makefile of the clone that is tested."""
        folder = Path(mkdtemp(prefix=f"{page.parent.name}-{page.stem}-", dir=self.place)) / "clone"
        unclean = shutil.ignore_patterns(".penstock", "input", "output", "archive", "lake", "__pycache__")
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=unclean)
        (folder / ".penstock").mkdir()
        (folder / ".penstock" / "dev").symlink_to(self.dev)
        token = folder / "stream-token"
        token.write_text("a-token")
        token.chmod(0o600)
        return folder

    def _end(self, command: str, enough: Enough | None) -> Enough | None:
        """When a command gets Ctrl-C; None for one that ends by itself or is in the background."""
        if command.endswith("&"):
            return None
        if re.match(r"penstock run (?!.*--once)", command):
            return enough or (lambda printed: bool(re.search(r"batch \d", printed)))
        if re.match(r"penstock feed (?!.*(--count|--file))", command):
            before = {name: self.topics.size(name) for name in re.findall(r"--to kafka:(\S+)", command)}
            return lambda printed: (
                "waiting for a pipeline's" in printed
                or (bool(before) and all(self.topics.size(name) > size for name, size in before.items()))
            )
        return None
