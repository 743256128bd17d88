"""The facade of Tacker's database. A first query starts it with the defaults of its library; Tacker's own settings
are given to it only by get_engine and get_session, and after a start it takes none. e2e/tacker/facts_test.go has both.
"""

import functools

_OWN = False  # whether Tacker's settings were given


class AlreadyStartedError(TypeError):
    """oslo.db's."""


class _Facade:
    started = False

    def configure(self):
        if self.started:
            raise AlreadyStartedError("this TransactionFactory is already started")

    def reader(self, function):
        @functools.wraps(function)
        def query(*args, **kwargs):
            self.started = True
            return function(*args, **kwargs)
        return query

    writer = reader


context_manager = _Facade()


class _Engine:
    pass


def get_engine():
    global _OWN
    if not _OWN:
        context_manager.configure()
        context_manager.started = _OWN = True
    return _Engine()


def get_session():
    get_engine()
