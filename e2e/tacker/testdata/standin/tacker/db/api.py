"""The facade of Tacker's database. A first query starts it with the defaults of its library; get_engine and get_session
give it Tacker's settings, and after a start it takes none.
"""

import functools


class AlreadyStartedError(TypeError):
    """oslo.db's."""


class _Facade:
    started = configured = False

    def reader(self, function):
        @functools.wraps(function)
        def query(*args, **kwargs):
            self.started = True
            return function(*args, **kwargs)
        return query

    writer = reader


context_manager = _Facade()


def get_engine():
    if not context_manager.configured:
        if context_manager.started:
            raise AlreadyStartedError("this TransactionFactory is already started")
        context_manager.configured = context_manager.started = True


def get_session():
    get_engine()
