package notice

import "slices"

// Open returns the pauses that last, in words and in a stable order, and whether one of them
// concerns all deletions.
func (p *Pauses) Open() (messages []string, everything bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		messages = append(messages, one.Message)
		everything = everything || one.everything() && one.Class != "kind"
	}
	slices.Sort(messages)
	return messages, everything
}
