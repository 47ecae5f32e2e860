package engine

// partition is what waits of a queue: of one namespace that is answered slowly, or of all others.
// A namespace's admission webhook may take its time for each DELETE, or hang. Then
//
//   - a request that has been under way for slowAfter takes up no slot any more, and its namespace
//     gets a partition of its own: its requests never take up a slot, and only a few of them are
//     sent at a time, until they are answered quickly again,
//   - while one is known to take that long, others are suspected after waryAfter,
//   - all of them together have at most half of what may be under way, and take turns.
//
// Objects without a namespace are one partition. With too many of them, what is left of the queue
// is slow as a whole.
//
// Live judgements have slots of their own and are shared out in the same way.
type partition struct {
	share           // the requests
	judging   share // the live judgements
	namespace string
	due       heap
	live      heap // what is judged live before its request
	backfill  heap
	claimed   heap // backfilled by a stamp that proves nothing: yields to backfill
}

// partitionsMost bounds the partitions of a queue: each is looked at for each turn.
const partitionsMost = 128

// heaps are all heaps of a partition.
func (p *partition) heaps() [4]*heap { return [...]*heap{&p.due, &p.live, &p.backfill, &p.claimed} }

func (p *partition) empty() bool {
	return p.inFlight+p.judging.inFlight == 0 && len(p.due.slots)+len(p.live.slots)+len(p.backfill.slots)+len(p.claimed.slots) == 0
}

// lastTurn is when something of it was begun last.
func (p *partition) lastTurn() uint64 { return max(p.turn, p.judging.turn) }

// partition is where an object of a namespace waits.
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

// separate gives a job's namespace a partition of its own, if there may be one more. What waits of
// the namespace moves there as it comes up. The lock is held.
func (e *Engine) separate(j *job) {
	q, namespace := j.queue, j.object.Namespace
	if q.own[namespace] == nil && len(q.own) < partitionsMost {
		if q.own == nil {
			q.own = map[string]*partition{}
		}
		q.own[namespace] = &partition{namespace: namespace}
	}
}

// dissolve drops the partition of a namespace that is not slow any more and has nothing left. The
// lock is held.
func (e *Engine) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && !own.judging.slow && own.empty() {
		delete(q.own, namespace)
	}
}
