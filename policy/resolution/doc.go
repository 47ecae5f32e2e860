// Package resolution finds the values that apply to one object.
//
// The context of an object is a [Scope]: the [NamespacePolicy] with the annotations of its
// namespace, each [PlatformPolicy] that matches it, the [RuntimePolicy] of its training runtime,
// and the [PodCounter] that counts it. [Resolve] walks the levels of precedence once and returns
// the [Effective] values with their sources; [ResolveTraced] also returns the levels that it
// considered.
//
// Admission calls [FillIn], which resolves the defaults of a new object and stamps their source
// into it. Anyone who can write an object can write a stamp, so a stamp counts only if the scope
// would give the same value again ([Unfilled], [Attested]).
package resolution
