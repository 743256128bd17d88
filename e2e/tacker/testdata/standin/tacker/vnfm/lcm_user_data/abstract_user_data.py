class AbstractUserData:
    pass
