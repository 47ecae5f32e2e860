// Package index is the compact index of the engine: one [Entry] for an object and a trigger, found
// by UID and ordered by the instant at which the engine must look at it.
//
// [Index.Add] makes an entry, which is addressed by a slot (slab.go) and found by UID through a
// hash table of slots (slab.go). [Index.Set] writes a judged [Object] into it: UIDs and versions
// are packed, and namespaces and sources become numbers (object.go). [Index.Move] puts the entry
// into the heap where its state belongs (heap.go), in the partition of its namespace if that has
// one.
//
// An Index holds no lock: the engine's lock guards it.
package index
