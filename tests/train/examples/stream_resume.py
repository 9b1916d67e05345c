"""Stream packs in shuffled order, and go on in the middle of an epoch.

python stream_resume.py PACKED
"""

import sys

from torch.utils.data import DataLoader

from packcli.train import PackStream, StreamOptions

(packed,) = sys.argv[1:]


def epoch_of(stream, epoch, workers):
    """Yield batches; the stream makes them, so the DataLoader must not."""
    stream.set_epoch(epoch)
    return DataLoader(stream, batch_size=None, collate_fn=list, num_workers=workers)


stream = PackStream(packed, StreamOptions(seed=1))
seen = []
for batch in epoch_of(stream, 0, workers=2):
    seen += batch
    if len(seen) == 3:
        break
checkpoint = stream.state_dict(seen=len(seen))  # only the loop knows what workers read ahead

stream = PackStream(packed, StreamOptions(seed=1))
stream.load_state_dict(checkpoint)
for batch in epoch_of(stream, 0, workers=0):
    seen += batch
