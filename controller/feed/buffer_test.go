package feed

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// pieces is a body that gives what has come so far, as a connection does, and counts who asks.
type pieces struct {
	come   [][]byte
	reads  int
	closed bool
}

func (p *pieces) Read(into []byte) (int, error) {
	p.reads++
	if len(p.come) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.come[0])
	if p.come[0] = p.come[0][n:]; len(p.come[0]) == 0 {
		p.come = p.come[1:]
	}
	return n, nil
}

func (p *pieces) Close() error {
	p.closed = true
	return nil
}

type cannedAnswer struct{ body io.ReadCloser }

func (a cannedAnswer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: a.body}, nil
}

func roundTrip(t *testing.T, url string, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := Buffer(cannedAnswer{body}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return response.Body
}

func TestWatchesAreReadInLargePieces(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	body := &pieces{come: [][]byte{bytes.Clone(content)}}
	got := roundTrip(t, "https://api/apis/batch/v1/jobs?watch=true", body)
	small := make([]byte, 16)
	for i := range 1000 {
		if _, err := io.ReadFull(got, small); err != nil || !bytes.Equal(small, content[:16]) {
			t.Fatalf("piece %d: %q, %v", i, small, err)
		}
	}
	if body.reads != 1 {
		t.Errorf("the connection was read %d times for one piece of %d bytes", body.reads, len(content))
	}
	if err := got.Close(); err != nil || !body.closed {
		t.Errorf("closed: %v, %v", body.closed, err)
	}
}

// An event is handed on when it is there, not when the buffer is full.
func TestBufferHoldsNothingBack(t *testing.T) {
	body := &pieces{come: [][]byte{[]byte("first"), []byte("second")}}
	got := roundTrip(t, "https://api/apis/batch/v1/jobs?watch=true", body)
	for _, want := range []string{"first", "second"} {
		into := make([]byte, 100)
		if n, err := got.Read(into); err != nil || string(into[:n]) != want {
			t.Fatalf("got %q, %v; want %q as soon as it has come", into[:n], err, want)
		}
	}
}

func TestOtherAnswersAreLeftAlone(t *testing.T) {
	body := &pieces{}
	if got := roundTrip(t, "https://api/apis/batch/v1/jobs?limit=500", body); got != io.ReadCloser(body) {
		t.Error("the cannedAnswer to a list has a buffer, too")
	}
}
