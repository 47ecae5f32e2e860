// Package house holds the rules of this repository that no other tool checks. They are tests: they
// read the source of the product's module, and name the file and line that breaks a rule.
package house
