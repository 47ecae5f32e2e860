package policy

// maxSourceText: the longest level, a slash and a name of at most 253 characters.
const maxSourceText = 253 + len("namespace/")

// ParseSource reads what [Source.String] wrote. An unknown text is a source of level object: it gives no rights.
func ParseSource(text string) Source {
	if len(text) > maxSourceText {
		return Source{Level: LevelObject}
	}
	for i := range text {
		if text[i] != '/' {
			continue
		}
		switch level := Level(text[:i]); level {
		case LevelRuntime, LevelNamespace, LevelPolicy:
			return Source{level, text[i+1:]}
		}
		break
	}
	return Source{Level: LevelObject}
}
