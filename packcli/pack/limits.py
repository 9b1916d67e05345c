"""Packs limited by samples, images and patches besides tokens: filled one after the other.

Best fit on tokens alone leaves what is scarce for the end: packs full of images, or of tiny
samples. Here each pack is to use every budget as far as the samples still to place use it on
average, so that what is left keeps its mix.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.histogram import ranked
from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions, Samples

import os
F=os.environ.get('F','w')
W=os.environ.get('W','avg')
DENS=int(os.environ.get('DENS','1'))
POW=float(os.environ.get('POW','2'))
_DENSITIES = 4  # classes of images, and of patches, per token
_TRIES = 6  # sizes looked at before a kind is given up

_Needs = tuple[int, ...]  # what a sample takes of each budget: tokens first


class _Kind:
    """Samples of similar images and patches per token, by size.

    Attributes:
        sizes: tokens, strictly increasing.
        stacks: samples of each size; the last is the next to go.
    """

    def __init__(self, members: list[int], needs: list[_Needs]) -> None:
        self._needs = needs
        self.sizes: list[int] = []
        self.stacks: list[list[int]] = []
        for size, group in groupby(members, key=lambda i: needs[i][0]):
            self.sizes.append(size)
            self.stacks.append(list(group))
        self._least = [
            min(needs[i][d] / needs[i][0] for i in members) for d in range(len(needs[0]))
        ]

    def find(self, wanted: float, rooms: list[int]) -> int:
        """Return the index of the largest size up to `wanted` whose next sample fits, or -1."""
        for room, least in zip(rooms, self._least, strict=True):
            if least * wanted > room:
                wanted = room / least
        at = bisect_right(self.sizes, wanted) - 1
        if at < 0:
            at = 0
        for at in range(at, max(-1, at - _TRIES), -1):
            if self.sizes and all(n <= r for n, r in zip(self._needs[self.stacks[at][-1]], rooms)):
                return at
        return -1

    def pop(self, at: int) -> int:
        """Take the next sample of one size."""
        stack = self.stacks[at]
        sample = stack.pop()
        if not stack:
            del self.sizes[at], self.stacks[at]
        return sample


class _Filler:
    def __init__(self, needs, kinds, budgets):
        self.needs, self.kinds, self.budgets = needs, kinds, budgets
        self.scale = [1/b for b in budgets]
        self.pool = [sum(col)/b for col, b in zip(zip(*needs), budgets)]
        self.left = len(needs)
        self.power = POW
    def run(self):
        packs=[]
        while self.left:
            packs.append(self.one())
        return packs
    def take(self, kind, at, rooms, pack):
        i = kind.pop(at)
        pack.append(i)
        for d, need in enumerate(self.needs[i]):
            rooms[d]-=need
            self.pool[d]-=need*self.scale[d]
        self.left-=1
    def one(self):
        critical=max(self.pool)
        targets=[b*w/critical for b,w in zip(self.budgets,self.pool)]
        slots=self.left/critical
        rooms=list(self.budgets); pack=[]
        best=(-1,None)
        for k in self.kinds:
            if k.sizes:
                i=k.stacks[-1][-1]
                if F=='max': v=max(n*s for n,s in zip(self.needs[i],self.scale))
                elif F=='tok': v=self.needs[i][0]
                elif F=='w': v=max(n*s*w for n,s,w in zip(self.needs[i],self.scale,self.pool))
                elif F=='sum': v=sum(n*s*w for n,s,w in zip(self.needs[i],self.scale,self.pool))
                if v>best[0]: best=(v,k)
        self.take(best[1],len(best[1].sizes)-1,rooms,pack)
        while self.left:
            goal=[max(0.0,(t-b+r)*s) for t,b,r,s in zip(targets,self.budgets,rooms,self.scale)]
            if not any(goal): goal=[r*s for r,s in zip(rooms,self.scale)]
            wanted=max(1.0,goal[0]*self.budgets[0]/(max(1.0,slots-len(pack)) if W=='avg' else 1))
            top=(-1.0,None,0)
            for k in self.kinds:
                if not k.sizes: continue
                at=k.find(wanted,rooms)
                if at<0: continue
                need=self.needs[k.stacks[at][-1]]
                dot=0.0; norm=0.0
                for n,s,g in zip(need,self.scale,goal):
                    x=n*s; dot+=x*g; norm+=x*x
                size=k.sizes[at]
                score=dot*dot/norm*(min(size,wanted)/max(size,wanted))**self.power
                if score>top[0]: top=(score,k,at)
            if top[1] is None: break
            self.take(top[1],top[2],rooms,pack)
        return pack

def arrange_limited(samples, options):
    demands=samples.demands(options)
    budgets=[m for _,m in demands]
    order=ranked(samples.lengths,options.seed)[::-1]
    code=np.zeros(len(samples),dtype=np.int64)
    for need,_ in demands[1:]:
        if need.strides==(0,): continue
        r=need/samples.lengths
        nz=r[r>0]
        q=np.quantile(nz,np.arange(1,DENS)/DENS) if nz.size else []
        code=code*(DENS+1)+np.where(r>0,1+np.searchsorted(q,r),0)
    needs=list(zip(*(n.tolist() for n,_ in demands)))
    kinds=[_Kind(order[code[order]==c].tolist(),needs) for c in np.unique(code)]
    f=_Filler(needs,kinds,budgets)
    packs=f.run()
    counts=np.array([len(p) for p in packs])
    return Arrangement(np.array([i for p in packs for i in p],dtype=order.dtype),counts)
