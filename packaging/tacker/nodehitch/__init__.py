"""What Python programs use of nodehitch: a client of its controller, and Tacker's driver."""
