package v1alpha1

// NativeFields are the paths of the kind's own fields for TTL, deadline, suspension and controller.
type NativeFields struct {
	// ttl is the path of the field with the TTL after finished, in whole seconds. Admission sets the
	// field, and the kind's own controller may delete the object before Curfew does.
	// +optional
	TTL *FieldPath `json:"ttl,omitempty"`
	// ttlSucceeded is the path of the field with the TTL after finished for objects that succeeded, in
	// whole seconds. It overrides ttl.
	// +optional
	TTLSucceeded *FieldPath `json:"ttlSucceeded,omitempty"`
	// ttlFailed is the path of the field with the TTL after finished for objects that failed, in whole
	// seconds. It overrides ttl. It does not apply to objects with outcome "Error", because the kind's
	// own controller does not apply it to them.
	// +optional
	TTLFailed *FieldPath `json:"ttlFailed,omitempty"`
	// deadline is the path of the field that limits how long an object may be active. See
	// deadlineFormat for its unit.
	// +optional
	Deadline *FieldPath `json:"deadline,omitempty"`
	// deadlineFormat is the format of the deadline field: Seconds or Duration. Seconds is a whole
	// number. Duration is a string such as "1h0m0s", where 0 means no deadline. Defaults to Seconds.
	// +optional
	// +kubebuilder:default=Seconds
	// +kubebuilder:validation:Enum=Seconds;Duration
	DeadlineFormat DeadlineFormat `json:"deadlineFormat,omitempty"`
	// suspend is the field that suspends an object, and the value to set.
	// +optional
	Suspend *SuspendField `json:"suspend,omitempty"`
	// managedBy is the field that assigns an object to another controller.
	// +optional
	ManagedBy *ManagedByField `json:"managedBy,omitempty"`
}

// DeadlineFormat is the format of a deadline field.
type DeadlineFormat string

// The formats.
const (
	FormatSeconds  DeadlineFormat = "Seconds"
	FormatDuration DeadlineFormat = "Duration"
)

// SuspendField is the field that suspends an object.
type SuspendField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// value that suspends the object. "true" and "false" are written as booleans, any other value as a
	// string. Defaults to "true".
	// +optional
	// +kubebuilder:default="true"
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
}

// ManagedByField is the field that assigns an object to another controller. Such an object gets no
// default.
type ManagedByField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// default is the value for the kind's own controller. An absent field means the same.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Default string `json:"default"`
}
