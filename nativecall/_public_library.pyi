# `Library` as type checkers see it: what `function` gives for a literal signature.
# tests/typing/overloads.py writes the overloads.

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, Unpack, overload

from . import _public
from ._callable.entry import Gil as _Gil
from ._library.library import Library as _Library
from ._public import NativeCallable
from ._signature.signature import Signature
from ._values.failure import Errors as _Errors
from ._values.policies import Said as _Said

class _Plain(TypedDict, total=False):
    # Options that change nothing of what Python passes and gets.
    name: str | None
    doc: str | None
    gil: _Gil | None
    errno: bool | None
    version: str | None

class _Options(_Plain, _Said, total=False):
    errors: _Errors | None
    free: str | Callable[[object], object] | None
    close: str | Sequence[str] | None

class Library(_Library):
    # ---- by signature
    @overload
    def function(
        self, symbol: str, signature: Literal["d:d"], **options: Unpack[_Plain]
    ) -> _public._Takes_d[float]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["q:d", "i:d"], **options: Unpack[_Plain]
    ) -> _public._Takes_d[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:d"], **options: Unpack[_Plain]
    ) -> _public._Takes_d[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:d"], **options: Unpack[_Plain]
    ) -> _public._Takes_d[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:q", "d:i"], **options: Unpack[_Plain]
    ) -> _public._Takes_q[float]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["q:q", "q:i", "i:q", "i:i"], **options: Unpack[_Plain]
    ) -> _public._Takes_q[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:q", "?:i"], **options: Unpack[_Plain]
    ) -> _public._Takes_q[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:q", "v:i"], **options: Unpack[_Plain]
    ) -> _public._Takes_q[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:dd"], **options: Unpack[_Plain]
    ) -> _public._Takes_dd[float]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["q:dd", "i:dd"], **options: Unpack[_Plain]
    ) -> _public._Takes_dd[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:dd"], **options: Unpack[_Plain]
    ) -> _public._Takes_dd[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:dd"], **options: Unpack[_Plain]
    ) -> _public._Takes_dd[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:dq", "d:di"], **options: Unpack[_Plain]
    ) -> _public._Takes_dq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:dq", "q:di", "i:dq", "i:di"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dq[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:dq", "?:di"], **options: Unpack[_Plain]
    ) -> _public._Takes_dq[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:dq", "v:di"], **options: Unpack[_Plain]
    ) -> _public._Takes_dq[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:qd", "d:id"], **options: Unpack[_Plain]
    ) -> _public._Takes_qd[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:qd", "q:id", "i:qd", "i:id"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qd[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:qd", "?:id"], **options: Unpack[_Plain]
    ) -> _public._Takes_qd[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:qd", "v:id"], **options: Unpack[_Plain]
    ) -> _public._Takes_qd[None]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["d:qq", "d:qi", "d:iq", "d:ii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:qq", "q:qi", "q:iq", "q:ii", "i:qq", "i:qi", "i:iq", "i:ii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qq[int]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["?:qq", "?:qi", "?:iq", "?:ii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qq[bool]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["v:qq", "v:qi", "v:iq", "v:ii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qq[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:ddd"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddd[float]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["q:ddd", "i:ddd"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddd[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:ddd"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddd[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:ddd"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddd[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:ddq", "d:ddi"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:ddq", "q:ddi", "i:ddq", "i:ddi"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_ddq[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:ddq", "?:ddi"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddq[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:ddq", "v:ddi"], **options: Unpack[_Plain]
    ) -> _public._Takes_ddq[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:dqd", "d:did"], **options: Unpack[_Plain]
    ) -> _public._Takes_dqd[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:dqd", "q:did", "i:dqd", "i:did"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dqd[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:dqd", "?:did"], **options: Unpack[_Plain]
    ) -> _public._Takes_dqd[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:dqd", "v:did"], **options: Unpack[_Plain]
    ) -> _public._Takes_dqd[None]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["d:dqq", "d:dqi", "d:diq", "d:dii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dqq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:dqq", "q:dqi", "q:diq", "q:dii", "i:dqq", "i:dqi", "i:diq", "i:dii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dqq[int]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["?:dqq", "?:dqi", "?:diq", "?:dii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dqq[bool]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["v:dqq", "v:dqi", "v:diq", "v:dii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_dqq[None]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["d:qdd", "d:idd"], **options: Unpack[_Plain]
    ) -> _public._Takes_qdd[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:qdd", "q:idd", "i:qdd", "i:idd"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qdd[int]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["?:qdd", "?:idd"], **options: Unpack[_Plain]
    ) -> _public._Takes_qdd[bool]: ...
    @overload
    def function(
        self, symbol: str, signature: Literal["v:qdd", "v:idd"], **options: Unpack[_Plain]
    ) -> _public._Takes_qdd[None]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["d:qdq", "d:qdi", "d:idq", "d:idi"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qdq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:qdq", "q:qdi", "q:idq", "q:idi", "i:qdq", "i:qdi", "i:idq", "i:idi"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qdq[int]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["?:qdq", "?:qdi", "?:idq", "?:idi"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qdq[bool]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["v:qdq", "v:qdi", "v:idq", "v:idi"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qdq[None]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["d:qqd", "d:qid", "d:iqd", "d:iid"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqd[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["q:qqd", "q:qid", "q:iqd", "q:iid", "i:qqd", "i:qid", "i:iqd", "i:iid"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqd[int]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["?:qqd", "?:qid", "?:iqd", "?:iid"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqd[bool]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["v:qqd", "v:qid", "v:iqd", "v:iid"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqd[None]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["d:qqq", "d:qqi", "d:qiq", "d:qii", "d:iqq", "d:iqi", "d:iiq", "d:iii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqq[float]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal[
            "q:qqq",
            "q:qqi",
            "q:qiq",
            "q:qii",
            "q:iqq",
            "q:iqi",
            "q:iiq",
            "q:iii",
            "i:qqq",
            "i:qqi",
            "i:qiq",
            "i:qii",
            "i:iqq",
            "i:iqi",
            "i:iiq",
            "i:iii",
        ],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqq[int]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["?:qqq", "?:qqi", "?:qiq", "?:qii", "?:iqq", "?:iqi", "?:iiq", "?:iii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqq[bool]: ...
    @overload
    def function(
        self,
        symbol: str,
        signature: Literal["v:qqq", "v:qqi", "v:qiq", "v:qii", "v:iqq", "v:iqi", "v:iiq", "v:iii"],
        **options: Unpack[_Plain],
    ) -> _public._Takes_qqq[None]: ...
    # ---- otherwise
    @overload
    def function(
        self, symbol: str, signature: str | Signature | None = None, **options: Unpack[_Options]
    ) -> NativeCallable: ...
