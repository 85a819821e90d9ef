"""TFDist: the TFDistJob API, its checks, and the contract between a replica and the controller."""

__version__ = "0.1.0"
