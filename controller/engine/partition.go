package engine

// partition holds the waiting entries of a queue: of one slow namespace, or of all other
// namespaces. The admission webhooks of a namespace may answer each DELETE slowly, or never. Then
//
//   - a request that has been under way for slowAfter gives its slot back, and its namespace gets a
//     partition of its own: requests of that partition take no slot, and only a few of them are
//     sent at a time, until they are answered quickly again,
//   - while one partition is known to be stuck, requests of others count as slow after waryAfter,
//   - all slow partitions together may have at most half of Options.MaxConcurrency under way, and
//     take turns.
//
// Objects without a namespace share a partition. Beyond partitionsMost slow namespaces, the rest of
// the queue becomes slow as a whole.
//
// Live judgements have their own slots, which are shared out in the same way.
type partition struct {
	share           // the requests
	judging   share // the live judgements
	namespace string
	due       heap
	live      heap // entries that are judged live before their request
	backfill  heap
	claimed   heap // backfill that only an unproven stamp claims: yields to backfill
}

// partitionsMost bounds the partitions of a queue: every turn looks at all of them.
const partitionsMost = 128

// heaps are all heaps of a partition.
func (p *partition) heaps() [4]*heap { return [...]*heap{&p.due, &p.live, &p.backfill, &p.claimed} }

func (p *partition) empty() bool {
	return p.inFlight+p.judging.inFlight == 0 && len(p.due.slots)+len(p.live.slots)+len(p.backfill.slots)+len(p.claimed.slots) == 0
}

// lastTurn is when a job of the partition began last.
func (p *partition) lastTurn() uint64 { return max(p.turn, p.judging.turn) }

// partition returns the partition of a namespace.
func (q *queue) partition(namespace string) *partition {
	if own := q.own[namespace]; own != nil {
		return own
	}
	return &q.rest
}

// partitions calls f for all partitions of a queue.
func (q *queue) partitions(f func(*partition)) {
	f(&q.rest)
	for _, own := range q.own {
		f(own)
	}
}

// separate gives a job's namespace a partition of its own, if there may be one more. Waiting
// entries of the namespace move there when they reach the top of their heap. The lock is held.
func (e *Engine) separate(j *job) {
	q, namespace := j.queue, j.object.Namespace
	if q.own[namespace] == nil && len(q.own) < partitionsMost {
		if q.own == nil {
			q.own = map[string]*partition{}
		}
		q.own[namespace] = &partition{namespace: namespace}
	}
}

// dissolve drops the partition of a namespace that is no longer slow and is empty. The lock is
// held.
func (e *Engine) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && !own.judging.slow && own.empty() {
		delete(q.own, namespace)
	}
}
