package expression

import (
	"encoding/json"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// adapter converts decoded JSON to CEL values. Unlike CEL's own adapter it treats a json.Number as
// a number, and not as a string, so that an expression means the same however its object was
// decoded.
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
