"""The TFDistJob resource: models, defaults, checks, and the CRD made from them."""
