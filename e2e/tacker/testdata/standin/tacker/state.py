"""What Tacker's database has: LCM operation occurrences and VIMs."""

import json
import os


def load():
    with open(os.environ["TACKER_STANDIN_STATE"]) as file:
        return json.load(file)


def save(state):
    with open(os.environ["TACKER_STANDIN_STATE"], "w") as file:
        json.dump(state, file)
