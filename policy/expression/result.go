package expression

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
)

// Result is the type that an expression must return. It is checked at compile time as far as types
// are known, and again for each value.
type Result uint8

// The results.
const (
	// ResultBool is true or false; null is false.
	ResultBool Result = iota
	// ResultTime is a timestamp, an RFC 3339 string, or nothing.
	ResultTime
	// ResultOutcome is "Succeeded", "Failed" or "Error".
	ResultOutcome
	// ResultTTL is a duration, a string as in annotations ("1d", "never"), whole seconds, or
	// nothing.
	ResultTTL
	// ResultDuration is the same without "never".
	ResultDuration
	// ResultLabel is a value of the label curfew.dev/ttl, a duration of whole seconds, a timestamp,
	// or nothing.
	ResultLabel
	// ResultText is a string.
	ResultText
	// ResultAny is anything: a variable, which other expressions use.
	ResultAny
)

var results = map[Result]string{
	ResultBool:     "true or false",
	ResultTime:     "a timestamp, an RFC 3339 string or null",
	ResultOutcome:  `"Succeeded", "Failed" or "Error"`,
	ResultTTL:      `a duration, a string such as "1d" or "never", whole seconds or null`,
	ResultDuration: `a duration, a string such as "1d", whole seconds or null`,
	ResultLabel:    `a string such as "7d" or "2026-12-24", a duration, a timestamp or null`,
	ResultText:     "a string",
	ResultAny:      "any value",
}

// String is the result as error messages name it.
func (r Result) String() string { return results[r] }

// accepts reports whether an expression of a type can return the result. Types that are only known
// at run time are accepted.
func (r Result) accepts(t *cel.Type) bool {
	if r == ResultAny {
		return true
	}
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind, types.NullTypeKind:
		return true
	case types.BoolKind:
		return r == ResultBool
	case types.StringKind:
		return r != ResultBool
	case types.TimestampKind:
		return r == ResultTime || r == ResultLabel
	case types.DurationKind:
		return r == ResultTTL || r == ResultDuration || r == ResultLabel
	case types.IntKind:
		return r == ResultTTL || r == ResultDuration
	default:
		return false
	}
}

// unwrap returns the value inside an optional; an empty optional is null.
func unwrap(value ref.Val) ref.Val {
	if optional, ok := value.(*types.Optional); ok {
		if !optional.HasValue() {
			return types.NullValue
		}
		return unwrap(optional.GetValue())
	}
	return value
}

// describe names a value in a message, short enough for a condition.
func describe(value ref.Val) string {
	return fmt.Sprintf("%s %q", value.Type().TypeName(), quote.Shorten(fmt.Sprintf("%v", value.Value())))
}

// Bool evaluates an expression of [ResultBool].
func (p *Program) Bool(ctx context.Context, variables *Variables) (bool, error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return false, err
	}
	switch v := value.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Null:
		return false, nil
	default:
		return false, p.wrong(value)
	}
}

// Time evaluates an expression of [ResultTime]; zero means nothing.
func (p *Program) Time(ctx context.Context, variables *Variables) (time.Time, error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return time.Time{}, err
	}
	switch v := value.(type) {
	case types.Timestamp:
		return v.Time, nil
	case types.Null:
		return time.Time{}, nil
	case types.String:
		t, err := lifetime.ParseTime(string(v))
		if err != nil {
			return time.Time{}, p.wrong(value)
		}
		return t, nil
	default:
		return time.Time{}, p.wrong(value)
	}
}

// Outcome evaluates an expression of [ResultOutcome]. An error is a failure with errored set.
func (p *Program) Outcome(ctx context.Context, variables *Variables) (outcome lifetime.Outcome, errored bool, err error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return lifetime.NoOutcome, false, err
	}
	switch value {
	case types.String("Succeeded"):
		return lifetime.Succeeded, false, nil
	case types.String("Failed"):
		return lifetime.Failed, false, nil
	case types.String("Error"):
		return lifetime.Failed, true, nil
	default:
		return lifetime.NoOutcome, false, p.wrong(value)
	}
}

// TTL evaluates an expression of [ResultTTL] or [ResultDuration]; nil means null. It also returns
// the result as the author of a constant would have written it.
func (p *Program) TTL(ctx context.Context, variables *Variables) (*lifetime.TTL, string, error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return nil, "", err
	}
	var text string
	switch v := value.(type) {
	case types.Null:
		return nil, "", nil
	case types.Duration:
		text = v.String()
		if v.Duration%time.Second != 0 || v.Duration < 0 {
			return nil, text, fmt.Errorf("the result is %s, and must be a whole number of seconds, 0 or more", text)
		}
		text = lifetime.FormatDuration(v.Duration)
	case types.Int:
		text = fmt.Sprint(int64(v))
	case types.Double:
		// Objects decoded from JSON by way of float64 have no integers.
		if real := float64(v); real != math.Trunc(real) || math.Abs(real) > math.MaxInt32 {
			return nil, "", p.wrong(value)
		}
		text = fmt.Sprint(int64(v))
	case types.String:
		text = string(v)
	default:
		return nil, "", p.wrong(value)
	}
	ttl, err := parseTTL(text, p.result == ResultTTL)
	if err != nil {
		return nil, text, fmt.Errorf("the result %w", err)
	}
	return &ttl, text, nil
}

func parseTTL(text string, never bool) (lifetime.TTL, error) {
	if never {
		return lifetime.ParseTTL(text)
	}
	after, err := lifetime.ParseDuration(text)
	return lifetime.TTL{After: after}, err
}

// Label evaluates an expression of [ResultLabel]; "" means nothing.
func (p *Program) Label(ctx context.Context, variables *Variables) (string, error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case types.Null:
		return "", nil
	case types.String:
		_, err := lifetime.ParseTTLLabel(string(v))
		if err != nil {
			return quote.Shorten(string(v)), fmt.Errorf("the result %w", err)
		}
		return string(v), nil
	case types.Duration:
		if v.Duration < time.Second || v.Duration%time.Second != 0 || v.Duration > lifetime.MaxDuration {
			return "", fmt.Errorf("the result is %s, and must be a whole number of seconds, 1s or more", v.Duration)
		}
		return lifetime.FormatDuration(v.Duration), nil
	case types.Timestamp:
		// Rounded up: a label that goes off earlier than computed would shorten a life (S6).
		t := v.Time.UTC()
		if whole := t.Truncate(time.Second); whole.Before(t) {
			t = whole.Add(time.Second)
		}
		return t.Format("2006-01-02T150405Z"), nil
	default:
		return "", p.wrong(value)
	}
}

// value is one default of a policy: a constant, an expression, or an error in place of a constant.
type value struct {
	path     string
	constant *lifetime.Setting
	program  *Program
}
