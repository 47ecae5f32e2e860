package lifetime

// Outcome is how an execution ended.
type Outcome uint8

// The outcomes. An object that is not finished has none.
const (
	NoOutcome Outcome = iota
	Succeeded
	Failed
)

// String is the outcome as messages write it.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	default:
		return "unfinished"
	}
}
