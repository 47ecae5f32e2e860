package v1alpha1

// Defaults of a policy. An expression that evaluates to null says nothing, so that the next policy is asked.
//
// +kubebuilder:validation:MinProperties=1
type Defaults struct {
	// ttl is how long a finished object may stay.
	// +optional
	TTL *TTLValue `json:"ttl,omitempty"`
	// ttlSucceeded is the same for objects that succeeded, and wins over ttl.
	// +optional
	TTLSucceeded *TTLValue `json:"ttlSucceeded,omitempty"`
	// ttlFailed is the same for objects that failed, and wins over ttl.
	// +optional
	TTLFailed *TTLValue `json:"ttlFailed,omitempty"`
	// deadline is how long an unfinished object may be active before it is failed, for kinds whose profile has a default
	// deadline; never for Pods.
	// +optional
	Deadline *DurationValue `json:"deadline,omitempty"`
	// ttlLabel is given as label curfew.dev/ttl to objects that carry none, and limits their life from creation, finished or not.
	// +optional
	TTLLabel *LabelValue `json:"ttlLabel,omitempty"`
}

// TTLValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type TTLValue struct {
	// value is a constant: a duration such as 1d, or never.
	// +optional
	Value *TTL `json:"value,omitempty"`
	// expression computes the value over object, namespaceObject and runtime: a CEL duration, a string such as "1d" or "never",
	// whole seconds, or null for nothing; beside values of another type CEL wants it as dyn(null). An object on which it fails
	// is kept, and reported. Example: object.metadata.namespace == "ci" ? "1d" : dyn(null)
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// DurationValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type DurationValue struct {
	// value is a constant, such as 12h. At least 1s.
	// +optional
	Value *Duration `json:"value,omitempty"`
	// expression computes the value over object, namespaceObject and runtime: a CEL duration, a string such as "12h", whole
	// seconds, or null for nothing.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// LabelValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type LabelValue struct {
	// value is a constant, such as 7d or 2026-12-24.
	// +optional
	Value *LabelTTL `json:"value,omitempty"`
	// expression computes the value over object, namespaceObject and runtime: a string in the label's form, a CEL duration of whole
	// minutes, a CEL timestamp, or null for nothing.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}
