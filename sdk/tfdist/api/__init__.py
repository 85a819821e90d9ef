"""The TFDistJob resource: models, defaults, validation rules, and the CRD generated from them."""
