package harness

import (
	"context"
	"errors"
	"net/url"
	"testing"
)

// A wait goes on after a broken connection, and ends with any other error.
func TestPoll(t *testing.T) {
	t.Parallel()
	broken, refused := &url.Error{Op: "Get", URL: "https://api", Err: errors.New("stream error")}, errors.New("refused")
	answers := []error{broken, broken, refused}
	err := Poll(t.Context(), "an answer", func(context.Context) (bool, error) {
		err := answers[0]
		answers = answers[1:]
		return false, err
	})
	if !errors.Is(err, refused) || len(answers) != 0 {
		t.Errorf("the wait ended with %v before %v", err, answers)
	}
}
