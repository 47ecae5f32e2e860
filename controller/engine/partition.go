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
type partition struct {
	share
	namespace string
	due       heap
	live      heap // what is judged live before its request
	backfill  heap
}

// partitionsMost bounds the partitions of a queue: each is looked at for each turn.
const partitionsMost = 128

// heaps are all heaps of a partition.
func (p *partition) heaps() [3]*heap { return [...]*heap{&p.due, &p.live, &p.backfill} }

func (p *partition) empty() bool {
	return p.inFlight == 0 && len(p.due.slots)+len(p.live.slots)+len(p.backfill.slots) == 0
}

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

// partitionFor returns the share of a job's namespace, with a partition of its own if there may be
// one more. What waits of the namespace moves there as it comes up. The lock is held.
func (e *Engine) partitionFor(j *job) *share {
	q, namespace := j.queue, j.object.Namespace
	if q.own[namespace] == nil && len(q.own) < partitionsMost {
		if q.own == nil {
			q.own = map[string]*partition{}
		}
		q.own[namespace] = &partition{namespace: namespace}
	}
	return &q.partition(namespace).share
}

// dissolve drops the partition of a namespace that is not slow any more and has nothing left. The
// lock is held.
func (e *Engine) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && own.empty() {
		delete(q.own, namespace)
	}
}
