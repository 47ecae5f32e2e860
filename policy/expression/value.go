package expression

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// originExpression marks field errors that come from an expression, for the reason of condition
// Ready.
const originExpression = "expression"

// value is one default of a policy: a constant, an expression, or an error in place of a constant.
type value struct {
	path     string
	constant *policy.Setting
	program  *Program
}

// setting is the value for one object; nil where there is none.
func (v *value) setting(ctx context.Context, source policy.Source, variables *Variables) *policy.Setting {
	if v == nil {
		return nil
	}
	if v.constant != nil {
		return v.constant
	}
	out := &policy.Setting{Path: v.path, Source: source, Text: v.program.source}
	ttl, text, err := v.program.TTL(ctx, variables)
	if text != "" {
		out.Text = text
	}
	switch {
	case err != nil:
		out.Err = err
	case ttl == nil:
		return nil
	default:
		out.TTL = *ttl
		if v.program.result == ResultDuration {
			out.Err = checkDeadline(out.TTL.After)
		}
	}
	return out
}

func checkDeadline(after time.Duration) error {
	if after < time.Second {
		return fmt.Errorf("%s is below 1: a deadline is 1s or more", policy.FormatDuration(after))
	}
	return nil
}

var errOneOf = errors.New("set exactly one of value and expression")

// value compiles one default. One that cannot be used becomes a constant with an error: it means
// keep (S6).
func (c *Compiler) value(path *field.Path, constant, expression *string, result Result, errs *field.ErrorList) *value {
	out := &value{path: path.String()}
	if (constant == nil) == (expression == nil) {
		*errs = append(*errs, field.Invalid(path, "", errOneOf.Error()))
		out.constant = &policy.Setting{Path: out.path, Err: errOneOf}
		return out
	}
	if expression != nil {
		at := path.Child("expression")
		out.path = at.String()
		program, err := c.Compile(*expression, ScopePolicy, result)
		if err != nil {
			*errs = append(*errs, invalidExpression(at, *expression, err))
			out.constant = &policy.Setting{Path: out.path, Text: *expression, Err: err}
			return out
		}
		out.program = program
		if err := out.constantError(); err != nil {
			*errs = append(*errs, invalidExpression(at, *expression, err))
		}
		return out
	}
	at := path.Child("value")
	out.path = at.String()
	out.constant = constantSetting(at, *constant, result)
	if out.constant.Err != nil {
		*errs = append(*errs, field.Invalid(at, *constant, out.constant.Err.Error()))
	}
	return out
}

// constantError is the error of an expression without variables, such as duration("1x"). It is the
// same for every object, so that it can be reported before there is one.
func (v *value) constantError() error {
	if !v.program.constant {
		return nil
	}
	if v.program.result == ResultLabel {
		_, err := v.program.Label(context.Background(), &Variables{})
		return err
	}
	if setting := v.setting(context.Background(), policy.Source{}, &Variables{}); setting != nil {
		return setting.Err
	}
	return nil
}

func constantSetting(path *field.Path, text string, result Result) *policy.Setting {
	out := &policy.Setting{Path: path.String(), Text: text}
	switch result {
	case ResultLabel:
		_, out.Err = policy.ParseTTLLabel(text)
		return out
	case ResultDuration:
		if out.TTL, out.Err = parseTTL(text, false); out.Err == nil {
			out.Err = checkDeadline(out.TTL.After)
		}
	default:
		out.TTL, out.Err = parseTTL(text, true)
	}
	return out
}

func invalidExpression(path *field.Path, source string, err error) *field.Error {
	return field.Invalid(path, source, err.Error()).WithOrigin(originExpression)
}

func textOf[T ~string](text *T) *string {
	if text == nil {
		return nil
	}
	plain := string(*text)
	return &plain
}

func (c *Compiler) ttlValue(path *field.Path, v *v1alpha1.TTLValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultTTL, errs)
}

func (c *Compiler) durationValue(path *field.Path, v *v1alpha1.DurationValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultDuration, errs)
}

func (c *Compiler) labelValue(path *field.Path, v *v1alpha1.LabelValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultLabel, errs)
}
