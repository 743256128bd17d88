from types import SimpleNamespace

CONF = SimpleNamespace(v2_nfvo=SimpleNamespace(use_external_nfvo=False))
