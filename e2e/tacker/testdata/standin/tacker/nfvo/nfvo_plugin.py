"""VIMs as Tacker has them: it asks the cluster before it keeps a credential, and changes no URL."""

import os
import signal
import uuid

from tacker import state
from tacker.db import api as transactions


class DuplicateEntity(Exception):
    pass


class VimUnauthorizedException(Exception):
    pass


class NfvoPlugin:
    def get_vims(self, context):
        transactions.get_session()
        seen = [each for each in state.load().get("vims", []) if context.is_admin or each["tenant_id"] == context.project_id]
        return [{**each, "auth_cred": {key: "***" for key in each["auth_cred"]}} for each in seen]

    def create_vim(self, context, vim):
        new = {"id": str(uuid.uuid4()), "changes": 1, **vim["vim"]}
        _authenticate(new)

        def add(vims):
            if any((each["tenant_id"], each["name"]) == (new["tenant_id"], new["name"]) for each in vims):
                raise DuplicateEntity("_type=vim, entry=['name']")
            vims.append(new)
        _change(add)
        if new["auth_cred"]["bearer_token"].startswith("killed"):
            os.kill(os.getpid(), signal.SIGKILL)

    def update_vim(self, context, vim_id, vim):
        _authenticate(vim["vim"])

        def update(vims):
            one, = [each for each in vims if each["id"] == vim_id]
            one.update({key: vim["vim"][key] for key in ("name", "auth_cred", "extra")}, changes=one["changes"] + 1)
        _change(update)

    def delete_vim(self, context, vim_id):
        def delete(vims):
            one, = [each for each in vims if each["id"] == vim_id]
            vims.remove(one)
        _change(delete)


def _change(change):
    transactions.get_session()
    whole = state.load()
    change(whole.setdefault("vims", []))
    state.save(whole)


def _authenticate(vim):
    token = vim["auth_cred"]["bearer_token"]
    if token.startswith("refused"):
        raise VimUnauthorizedException("(401)\nHTTP request headers: Bearer " + token)
