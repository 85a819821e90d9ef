"""The client of TFDist: `pip install 'tfdist[client]'`, then `tfdist.Client()`."""
