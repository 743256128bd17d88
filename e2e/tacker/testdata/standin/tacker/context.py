class Context:
    def __init__(self, user_id, tenant_id, is_admin):
        self.user_id, self.project_id, self.is_admin = user_id, tenant_id, is_admin


def get_admin_context():
    return Context(None, None, True)


def is_user_context(context):
    return bool(not context.is_admin and getattr(context, "user_id", None) and context.project_id)
