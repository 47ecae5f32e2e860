package v1alpha1

// Defaults are the default TTLs and deadline of a policy. If an expression returns null, the next
// matching policy applies.
//
// +kubebuilder:validation:MinProperties=1
type Defaults struct {
	// ttl is the default TTL after finished: how long Curfew keeps a finished object. Absent means no
	// default.
	// +optional
	TTL *TTLValue `json:"ttl,omitempty"`
	// ttlSucceeded is the default TTL after finished for objects that succeeded. It overrides ttl.
	// +optional
	TTLSucceeded *TTLValue `json:"ttlSucceeded,omitempty"`
	// ttlFailed is the default TTL after finished for objects that failed. It overrides ttl.
	// +optional
	TTLFailed *TTLValue `json:"ttlFailed,omitempty"`
	// deadline is the default deadline: how long an unfinished object may be active before it is
	// failed. It applies to kinds whose profile sets deadline.allowDefault, and never to Pods. Absent
	// means no default.
	// +optional
	Deadline *DurationValue `json:"deadline,omitempty"`
	// ttlLabel is the label curfew.dev/ttl that Curfew adds to objects without one. The label limits
	// their lifetime from creation, finished or not. Kinds that never finish get it only if
	// match.kinds names them without a wildcard. Absent means that no label is added.
	// +optional
	TTLLabel *LabelValue `json:"ttlLabel,omitempty"`
}

// TTLValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type TTLValue struct {
	// value is a constant: a duration such as "1d", or "never". A number in quotes is seconds ("90").
	// +optional
	Value *TTL `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a CEL
	// duration, a string such as "1d" or "never", whole seconds, or null for no value. Next to values
	// of another type CEL needs dyn(null). If it fails on an object, Curfew keeps the object and
	// reports it. Example: object.metadata.namespace == "ci" ? "1d" : dyn(null)
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// DurationValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type DurationValue struct {
	// value is a constant: a duration such as "12h". A number in quotes is seconds ("90"). At least
	// "1s".
	// +optional
	Value *Duration `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a CEL
	// duration, a string such as "12h", whole seconds, or null for no value. At least 1s.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// LabelValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type LabelValue struct {
	// value is a constant: a duration from creation such as "7d", or a date or time in UTC such as
	// "2026-12-24" or "2026-12-24T003000Z".
	// +optional
	Value *LabelTTL `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a string in
	// the format of the label, a CEL duration of whole seconds (at least 1s), a CEL timestamp, or null
	// for no label.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}
