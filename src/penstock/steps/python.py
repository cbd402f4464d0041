"""A Python function of DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from penstock.connector import Call, StepOptions, UserCode
from penstock.errors import BuildError
from penstock.imports import import_object
from penstock.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self


class PythonStep(StepOptions):
    """A function that takes the DataFrames that it reads, in that order, and returns one."""

    kind: ClassVar[str] = "python"
    runs_user_code: ClassVar[bool] = True

    function: str = Field(default="", pattern=r"^$|^[\w.]+:\w+$", description="'module:function', next to the file.")
    reads: Names = Field(default=(), description="The streams that it is called with, in that order.")
    call: Any = Field(default=None, exclude=True, description="The function itself, from Python.")

    @model_validator(mode="after")
    def _is_callable(self) -> Self:
        if bool(self.function) == bool(self.call):
            raise ValueError("a python step is one function: 'module:function'")
        return self

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The function."""
        return (UserCode("function", self.function, Call(self.reads)),) if self.function else ()

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The result of the function."""
        from pyspark.sql import DataFrame

        rows = self._callable()(*(streams[name] for name in self.reads))
        if not isinstance(rows, DataFrame):
            raise BuildError(f"{self.function_name} returned {type(rows).__name__}; return a DataFrame")
        return rows

    @property
    def function_name(self) -> str:
        """The function by its name."""
        return self.function or getattr(self.call, "__qualname__", "the function")

    def _callable(self) -> Callable[..., Any]:
        if self.call is not None:
            given: Callable[..., Any] = self.call
            return given
        function: Callable[..., Any] = import_object(self.function)
        if not callable(function):
            raise BuildError(f"{self.function} is not a function")
        return function
