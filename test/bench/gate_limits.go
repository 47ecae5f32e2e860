package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// gateLimits is the file of the limits.
const gateLimits = "test/bench/gate.yaml"

// gateLimit is what a row has to keep: one of the two.
type gateLimit struct {
	// Reached is the ratio that was measured when the limit was set.
	Reached float64 `json:"reached"`
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
}

// Where other processes took more than crowded of the machine, each limit is crowdedSlack times
// wider. Noise breaks the narrow limit there. A lost factor breaks the wide one as well.
const crowded, crowdedSlack = 0.25, 2

// holds reports whether a ratio keeps the limit. Other processes took the given share of the
// machine.
func (l gateLimit) holds(ratio, others float64) bool {
	slack := 1.0
	if others > crowded {
		slack = crowdedSlack
	}
	if l.AtLeast > 0 {
		return ratio >= l.AtLeast/slack
	}
	return ratio <= l.AtMost*slack
}

func (l gateLimit) String() string {
	if l.AtLeast > 0 {
		return fmt.Sprintf("at least %g", l.AtLeast)
	}
	return fmt.Sprintf("at most %g", l.AtMost)
}

// The limit is that much worse than what was reached, so that noise passes and a lost factor does
// not.
const leastSlack, mostSlack = 1.25, 2.0

func (l gateLimit) check() error {
	slack := l.AtMost / l.Reached
	if l.AtLeast > 0 {
		slack = l.Reached / l.AtLeast
	}
	switch {
	case l.Reached <= 0:
		return errors.New("say in reached what was measured")
	case (l.AtLeast > 0) == (l.AtMost > 0):
		return errors.New("give one of atLeast and atMost")
	case slack < leastSlack || slack > mostSlack:
		return fmt.Errorf("%s is %.2f times worse than the %g that was reached: let it be %g to %g times", l, slack, l.Reached, leastSlack, mostSlack)
	}
	return nil
}

// readLimits reads the file of limits. It has one for each row and no others: a row without a limit
// would pass whatever it measures.
func readLimits(path string, rows []gateRow) (map[string]gateLimit, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the limits: %w", err)
	}
	limits, err := parseLimits(data, rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

func parseLimits(data []byte, rows []gateRow) (map[string]gateLimit, error) {
	var file struct {
		Limits map[string]gateLimit `json:"limits"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	var errs []error
	for _, row := range rows {
		known[row.name] = true
		if _, ok := file.Limits[row.name]; !ok {
			errs = append(errs, fmt.Errorf("row %s has no limit", row.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Limits)) {
		if !known[name] {
			errs = append(errs, fmt.Errorf("there is no row %s", name))
		} else if err := file.Limits[name].check(); err != nil {
			errs = append(errs, fmt.Errorf("row %s: %w", name, err))
		}
	}
	return file.Limits, errors.Join(errs...)
}
