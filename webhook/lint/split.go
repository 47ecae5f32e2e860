package lint

import "bytes"

// chunk is a part of a text between two document markers.
type chunk struct {
	text []byte
	// line is that of its first byte, counted from 1.
	line int
}

// split cuts YAML at the lines that begin with "---", as kubectl does, or "...", so that an error
// in one document does not affect the others. Text after the marker on its line belongs to the
// document. Chunks without content are left out.
func split(data []byte) []chunk {
	var out []chunk
	current := chunk{line: 1}
	start, line := 0, 1
	for at := 0; at < len(data); line++ {
		end := len(data)
		if newline := bytes.IndexByte(data[at:], '\n'); newline >= 0 {
			end = at + newline + 1
		}
		if isMarker(data[at:end]) {
			current.text = data[start:at]
			out = appendChunk(out, current)
			start, current = at+len("---"), chunk{line: line}
		}
		at = end
	}
	current.text = data[start:]
	return appendChunk(out, current)
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

func appendChunk(chunks []chunk, next chunk) []chunk {
	for line := range bytes.Lines(next.text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && trimmed[0] != '%' {
			return append(chunks, next)
		}
	}
	return chunks
}
