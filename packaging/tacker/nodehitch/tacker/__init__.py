"""Tacker's hooks: each posts its phase of the operation to nodehitch's controller and waits.

hooks has the calls of all hooks. driver (v1 API) and script (v2 API) translate what Tacker gives
them; user_data and user_data_v2 give Heat what new servers need to reach the controller.
"""
