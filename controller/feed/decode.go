package feed

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	"curfew.dev/curfew/controller/transport"
	"curfew.dev/curfew/controller/watch"
)

// NewObjects is a dynamic client whose watches cost little. The ordinary dynamic client parses each
// event a dozen times, to find its end, its kind and its content. This one reads each event as a
// line and decodes only its object. It drops metadata.managedFields, half of a small object: no
// judge reads them (package expression).
func NewObjects(config *rest.Config) (dynamic.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.Wrap(watch.Cap)
	config.NegotiatedSerializer = lineSerializer{config.NegotiatedSerializer}
	config.GroupVersion = nil // The dynamic client names one in each path.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client of the API server: %w", err)
	}
	plain, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return dynamic.New(plain), nil
}

// lineSerializer reads JSON watches by lines and leaves everything else to the wrapped serializer.
type lineSerializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s lineSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i := range infos {
		if infos[i].MediaType != runtime.ContentTypeJSON || infos[i].StreamSerializer == nil {
			continue
		}
		stream := *infos[i].StreamSerializer
		stream.Serializer, stream.Framer = lineEvents{stream.Serializer}, lines{stream.Framer}
		infos[i].StreamSerializer, infos[i].Serializer = &stream, plainObjects{infos[i].Serializer}
	}
	return infos
}

// lines frames a watch: the API server ends each event with a newline and writes none within.
type lines struct{ runtime.Framer }

// NewFrameReader implements runtime.Framer.
func (lines) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{in: bufio.NewReaderSize(r, bufferSize), Closer: r}
}

// lineReader answers each Read with a line, or with a part of one and io.ErrShortBuffer.
type lineReader struct {
	io.Closer
	in *bufio.Reader
	// rest is the part of the line that was read from in but not returned yet. ends reports whether
	// rest ends the line.
	rest []byte
	ends bool
}

func (l *lineReader) Read(data []byte) (int, error) {
	n := 0
	for {
		if len(l.rest) == 0 {
			chunk, err := l.in.ReadSlice('\n')
			if err != nil && err != bufio.ErrBufferFull {
				if err == io.EOF && n+len(chunk) > 0 {
					err = io.ErrUnexpectedEOF
				}
				return n, err
			}
			l.rest, l.ends = chunk, err == nil
		}
		m := copy(data[n:], l.rest)
		n, l.rest = n+m, l.rest[m:]
		switch {
		case len(l.rest) > 0:
			return n, io.ErrShortBuffer
		case l.ends:
			return n, nil
		}
	}
}

type kind = schema.GroupVersionKind

// lineEvents takes the envelope off an event.
type lineEvents struct{ runtime.Serializer }

// Decode implements runtime.Decoder. The returned object points into data, which is valid until the
// next event is read: client-go decodes the object before that (k8s.io/client-go/rest/watch).
func (s lineEvents) Decode(data []byte, defaults *kind, into runtime.Object) (runtime.Object, *kind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		if change, object, ok := envelope(data); ok {
			event.Type, event.Object.Raw = change, object
			return event, &kind{}, nil
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

// envelope reads {"type":"MODIFIED","object":{…}} as the API server writes it. ok is false for any
// other form.
func envelope(data []byte) (kind string, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`","object":`))
	if !ok || bytes.ContainsAny(name, `"\`) {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(bytes.TrimRight(rest, "\r\n"), []byte("}"))
	return string(name), object, ok
}

// plainObjects decodes objects of unknown kinds, such as the objects of a watch.
type plainObjects struct{ runtime.Serializer }

// Decode implements runtime.Decoder. It leaves errors of the API server, lists, and anything but
// JSON to the wrapped serializer.
func (s plainObjects) Decode(data []byte, defaults *kind, into runtime.Object) (runtime.Object, *kind, error) {
	if into == nil {
		if object, err := decodeObject(data); err == nil {
			read := &unstructured.Unstructured{Object: object}
			kind := read.GroupVersionKind()
			if _, list := object["items"]; !list && kind.Kind != "" && kind != metav1.SchemeGroupVersion.WithKind("Status") && kind != statusKind {
				return read, &kind, nil
			}
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

// decodeObject reads one object as the dynamic client does, whole numbers as int64, without its
// metadata.managedFields.
func decodeObject(data []byte) (map[string]any, error) {
	var object map[string]any
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &object); err != nil {
		return nil, err
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	return object, nil
}

// statusKind is the kind of the API server's errors.
var statusKind = kind{Version: "v1", Kind: "Status"}

// bufferSize holds some forty events.
const bufferSize = 64 << 10

// Buffer wraps a transport so that watches are read from the connection in large pieces. client-go
// reads a watch four bytes and one event at a time, and HTTP/2 answers nearly every read with a
// frame that allows the API server to send as much again. These frames are a tenth of the cost of a
// long list, for both sides.
func Buffer(next http.RoundTripper) http.RoundTripper {
	return &transport.Wrapper{Next: next, Do: buffered}
}

func buffered(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") != "true" {
		return response, err
	}
	response.Body = &bufferedBody{bufio.NewReaderSize(response.Body, bufferSize), response.Body}
	return response, nil
}

type bufferedBody struct {
	*bufio.Reader
	io.Closer
}
