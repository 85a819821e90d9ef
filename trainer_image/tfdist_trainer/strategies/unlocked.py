"""Has TensorFlow connect the members of a gang while Python goes on.

TensorFlow's own binding holds Python's lock until everybody is there: the report would not be answered, a notice to
stop not be heard, and a member that is killed just then would keep the others for an hour, which is how long
TensorFlow waits. `ctypes` calls the same function of its C interface (`tensorflow/c/eager/c_api_experimental.h`)
without the lock.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import errors_impl

_NAME: Final = "TFE_EnableCollectiveOps"
_LIBRARY: Final = "libtensorflow_cc.so.2"


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """Let Python's other threads run while TensorFlow connects the members inside.

    Where TensorFlow has another form than is known here, it connects as ever.
    """
    original = getattr(pywrap_tfe, _NAME)
    with contextlib.suppress(OSError, AttributeError):
        setattr(pywrap_tfe, _NAME, _without_lock(ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), _LIBRARY)))))
    try:
        yield
    finally:
        setattr(pywrap_tfe, _NAME, original)


def _without_lock(library: ctypes.CDLL) -> Callable[[Any, bytes], None]:
    """Return what does the same as TensorFlow's binding: (context, a serialized `ServerDef`) -> nothing.

    Raises:
        AttributeError: `library` lacks a function.
    """
    connect, new = library.TFE_EnableCollectiveOps, library.TF_NewStatus
    code_of, message_of, delete = library.TF_GetCode, library.TF_Message, library.TF_DeleteStatus
    connect.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
    connect.restype = None
    new.restype = ctypes.c_void_p
    code_of.argtypes = message_of.argtypes = delete.argtypes = [ctypes.c_void_p]
    message_of.restype = ctypes.c_char_p
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer_of.restype = ctypes.c_void_p

    def call(context: Any, server: bytes) -> None:
        status = new()
        try:
            connect(pointer_of(context, None), server, len(server), status)
            if code := code_of(status):
                message = message_of(status).decode(errors="replace")
                raise errors_impl.exception_type_from_error_code(code)(None, None, message)
        finally:
            delete(status)

    return call
