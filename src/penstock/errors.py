"""Every error we raise on purpose, and the exit codes.

0    success
1    something must be fixed first: the file, the data, rights, a checkpoint that is refused
2    the command was called in a way that cannot work
75   a run ended and the next one may succeed: a system did not answer, the driver died (EX_TEMPFAIL of sysexits.h)

PenstockError            the pipeline's fault unless said otherwise: exit 1
├── CallError            the call's fault: exit 2
├── LoadError            the file could not become a pipeline; carries every finding
├── CheckError           the pipeline contradicts a rule; carries every finding
├── JarError             a jar is missing, damaged or cannot be fetched
├── ServiceError         a broker or store on this machine does not come up
├── UnreachableError     an outside system does not answer; trying again can help
├── RefusedError         an outside system answers and refuses us: certificate, password, rights
├── CertificateError     our certificate or key cannot be used
├── BuildError           Spark refuses a source, a step or a sink
└── RunError             a running query failed
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.redaction import redact

TRY_AGAIN = 75


class PenstockError(Exception):
    """An error with a sentence for the user; `retry` says whether trying again can help."""

    exit_code = 1
    retry = False

    def __str__(self) -> str:
        return redact(super().__str__())

    def add_place(self, where: str) -> PenstockError:
        """The same error with the place in the user's file before its sentence."""
        self.args = (f"{where}: {self}",)
        return self


class CallError(PenstockError):
    """The command was called in a way that cannot work."""

    exit_code = 2


class _FindingsError(PenstockError):
    def __init__(self, findings: Sequence[object]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in findings))


class LoadError(_FindingsError):
    """The file could not become a pipeline; everything that is wrong with it, in file order."""


class CheckError(_FindingsError):
    """The pipeline contradicts rules of `check`."""


class JarError(PenstockError):
    """A jar is missing, damaged or cannot be fetched."""


class ServiceError(PenstockError):
    """A service on this machine does not start, or does not stop."""


class UnreachableError(PenstockError):
    """An outside system does not answer."""

    retry = True


class RefusedError(PenstockError):
    """An outside system answers, and refuses us; it would refuse us again."""


class CertificateError(PenstockError):
    """Our certificate or key cannot be used."""


class BuildError(PenstockError):
    """Spark refuses what the file says."""


class RunError(PenstockError):
    """A running query failed; `retry` is set by the kind of failure."""

    def __init__(self, says: str, *, retry: bool = False) -> None:
        super().__init__(says)
        self.retry = retry
