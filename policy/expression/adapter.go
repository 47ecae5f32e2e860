package expression

import (
	"encoding/json"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// adapter makes CEL values of decoded JSON. It differs from CEL's own in one point: a json.Number is a number and not, as its
// Go type suggests, a string, so that an expression means the same however its object was decoded.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		return number(v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(value)
	}
}

func number(n json.Number) ref.Val {
	if whole, err := n.Int64(); err == nil {
		return types.Int(whole)
	}
	real, err := n.Float64()
	if err != nil {
		return types.NewErr("%q is not a number", string(n))
	}
	return types.Double(real)
}
