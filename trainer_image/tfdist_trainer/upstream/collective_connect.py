"""A private hook of TensorFlow's binding: the call that connects the members of a gang, without Python's lock.

TensorFlow's own binding holds the global interpreter lock (GIL) until all members have connected: meanwhile the report
server does not answer, SIGTERM is not handled, and if a member is killed just then the others wait for an hour,
TensorFlow's time limit. `ctypes` calls the same function of the C interface and releases the lock.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import errors_impl

from tfdist_trainer.upstream.hook import Hook, fall_back

_LIBRARY: Final = "libtensorflow_cc.so.2"

CONNECT: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.pywrap_tfe:TFE_EnableCollectiveOps",
    source="tensorflow/c/eager/c_api_experimental.h (TFE_EnableCollectiveOps), tensorflow/c/tf_status.h; called by "
    "tensorflow/python/eager/context.py",
    reason="The binding holds the GIL while it waits for the other members.",
    missing="TensorFlow connects with the GIL held: SIGTERM and the time limit work only after it has connected",
)
ERROR: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.framework.errors_impl:exception_type_from_error_code",
    reason="Maps the status code of the C interface to the exception that the binding would raise.",
    missing="TensorFlow connects with the GIL held: SIGTERM and the time limit work only after it has connected",
    parameters=("error_code",),
)
HOOKS: Final = (CONNECT, ERROR)


@contextlib.contextmanager
def gil_free_connect() -> Iterator[None]:
    """Let Python's other threads run while TensorFlow connects the members inside.

    Where TensorFlow lacks a hook, it connects by its own binding.
    """
    # Replaced only for the connection: nothing else of TensorFlow calls it.
    original = getattr(pywrap_tfe, "TFE_EnableCollectiveOps", None)
    if original is None or not hasattr(errors_impl, "exception_type_from_error_code"):
        fall_back(CONNECT if original is None else ERROR)
        yield
        return
    try:
        pywrap_tfe.TFE_EnableCollectiveOps = _without_gil(ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), _LIBRARY))))
    except (OSError, AttributeError):
        fall_back(CONNECT)
    try:
        yield
    finally:
        pywrap_tfe.TFE_EnableCollectiveOps = original


def _without_gil(library: ctypes.CDLL) -> Callable[[Any, bytes], None]:
    """Return a replacement of TensorFlow's binding: (context, a serialized `ServerDef`) -> None.

    Raises:
        AttributeError: `library` lacks a function.
    """
    connect, new = library.TFE_EnableCollectiveOps, library.TF_NewStatus
    code_of, message_of, delete = library.TF_GetCode, library.TF_Message, library.TF_DeleteStatus
    # Declared, because ctypes would pass pointers as 32-bit integers.
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
