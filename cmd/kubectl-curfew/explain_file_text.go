package main

import (
	"fmt"
	"io"
	"strings"

	"curfew.dev/curfew/policy"
)

func writeForecasts(all []*forecast, out io.Writer) error {
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := one.text(out); err != nil {
			return err
		}
	}
	return nil
}

// name of the object, with its place.
func (p *forecast) name() string {
	out := p.kind.Name(p.of.Facts.Name)
	if p.of.Facts.Namespace != "" {
		out += " in namespace " + p.of.Facts.Namespace
	}
	return out + " (" + where(p.file, p.line) + ")"
}

// outlook is the answer in one sentence.
func (p *forecast) outlook() string {
	if len(p.rejected) > 0 {
		return "would be rejected by admission"
	}
	var parts []string
	if text := p.afterwards(); text != "" {
		parts = append(parts, text)
	}
	if verdict := p.of.ByLabel; p.of.LabelKey != "" && verdict.Err == nil && !verdict.Expiry.IsZero() {
		parts = append(parts, fmt.Sprintf("expires %s, created now, by label %s=%s", instant(verdict.Expiry, p.now.Location()), p.of.LabelKey, p.of.Facts.Labels[p.of.LabelKey]))
	}
	if value := p.of.Effective.Deadline; value.Set && value.Err == nil && !value.TTL.Never {
		parts = append(parts, fmt.Sprintf("is stopped once it was active for %s, by %s deadline%s", value.TTL, ownTTL(value.Source, "the"), fromSource(value.Source)))
	}
	if len(parts) == 0 {
		return "stays: nothing gives it a TTL, a TTL label or a deadline"
	}
	return strings.Join(parts, "; ")
}

// afterwards says what its TTL after finished does; "" without one.
func (p *forecast) afterwards() string {
	by := func(value policy.Value) string {
		return ", by " + ownTTL(value.Source, "the") + " TTL" + fromSource(value.Source)
	}
	say := func(value policy.Value, when string) string {
		switch {
		case !value.Set || value.Err != nil:
			return ""
		case value.TTL.Never:
			return "stays after it has " + when + by(value)
		default:
			return "expires " + value.TTL.String() + " after it has " + when + by(value)
		}
	}
	succeeded, failed := p.of.Effective.Succeeded, p.of.Effective.Failed
	if succeeded.Set == failed.Set && succeeded.TTL == failed.TTL && succeeded.Source == failed.Source {
		return say(succeeded, "finished")
	}
	var parts []string
	for _, text := range []string{say(succeeded, "succeeded"), say(failed, "failed")} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

func (p *forecast) text(out io.Writer) error {
	fmt.Fprintf(out, "%s %s\n", oneLine(p.name()), oneLine(p.outlook()))
	filled := [][]string{}
	for _, each := range p.filled {
		filled = append(filled, []string{"   " + each.String()})
	}
	rejected := [][]string{}
	for _, each := range p.rejected {
		rejected = append(rejected, []string{"   " + each})
	}
	for _, part := range []struct {
		title string
		rows  [][]string
	}{
		{"Rejected because of", rejected},
		{"Filled in", filled},
		{"TTL after finished", levels(p.of.TTL, p.of.ByTTL)},
		{"TTL label", p.label()},
		{"Deadline", levels(p.of.Deadline, p.of.ByDeadline)},
		{"Bounds", p.bounds()},
		{"Also deleted by", p.alsoDeletedBy()},
	} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", part.title)
		if err := printAligned(out, part.rows); err != nil {
			return err
		}
	}
	return nil
}

// alsoDeletedBy is the kind's own controller, which acts by the native field, as it is in the file
// or as admission fills it in.
func (p *forecast) alsoDeletedBy() [][]string {
	facts := p.of.Facts
	text := ""
	if native := policy.NativeDeletionOf(facts); native != nil {
		text = settingText(native.Setting.Field(), native.Setting)
	}
	for _, filled := range p.filled {
		if !filled.DryRun && strings.HasSuffix(strings.Join(facts.Profile.TTL, "."), filled.Field) {
			text = filled.Field + " " + filled.Value
		}
	}
	if text == "" {
		return nil
	}
	return [][]string{{"   " + facts.Profile.NativeDeleter(), text + ", where that controller runs"}}
}
