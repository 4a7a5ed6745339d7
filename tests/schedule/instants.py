"""The instants of crontab expressions by croniter: a list of [expression, from, to) comes in as JSON, their instants go out.

All are times of a wall clock that no zone changes.
"""

import json
import sys
from datetime import datetime, timedelta

from croniter import croniter


def instants(expression, start, end):
    end = datetime.fromisoformat(end)
    # An instant that is the start itself belongs to it.
    times = croniter(expression, datetime.fromisoformat(start) - timedelta(seconds=1))
    while (at := times.get_next(datetime)) < end:
        yield at.isoformat()


json.dump([list(instants(*asked)) for asked in json.load(sys.stdin)], sys.stdout)
