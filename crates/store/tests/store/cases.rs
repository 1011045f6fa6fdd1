//! The list of contract cases. A store that passes them is a store; each is listed here once, for all of them.

/// Makes one test of each case for each store. A case that is written and not listed is dead code, and does not build.
macro_rules! store_cases {
    ($($store:ident: $opening:path),+ $(,)?) => {$(
        mod $store {
            tests! { $opening =>
                capture::a_new_letter_comes_back_whole,
                capture::an_original_comes_back_to_the_byte,
                capture::a_letter_with_a_long_history_comes_back_whole,
                capture::a_thousand_letters_inserted_twice_are_a_thousand_letters,
                capture::the_same_event_elsewhere_is_another_letter,
                capture::the_same_key_twice_in_one_batch_is_one_letter,
                capture::long_ids_that_differ_at_the_end_are_two_letters,
                capture::long_names_are_cut_in_lists_and_whole_in_the_history,
                capture::odd_characters_come_back_in_every_field,
                capture::an_incident_is_opened_once_per_fingerprint,
                capture::a_letter_is_created_in_the_millisecond_of_its_id,
                capture::sixteen_reporters_of_the_same_letters_make_each_once,
                capture::an_empty_batch_changes_nothing,
                capture::what_does_not_exist_is_not_found,
                deaths::a_duplicate_adds_only_the_attempts_not_yet_known,
                deaths::a_duplicate_of_everything_leaves_no_trace,
                deaths::a_later_failure_begins_the_next_life,
                deaths::a_life_may_come_with_another_type_and_queue,
                deaths::a_letter_that_dies_after_its_redrive_relapses,
                deaths::a_letter_that_dies_while_being_sent_relapses,
                deaths::a_confirmed_letter_that_dies_again_relapses,
                deaths::a_mark_of_an_earlier_life_moves_nothing,
                deaths::a_mark_of_another_letter_proves_nothing,
                deaths::a_resolved_letter_that_dies_again_is_pending,
                deaths::a_discarded_letter_stays_discarded_and_remembers,
                deaths::a_hold_outlives_a_death,
                deaths::the_word_of_the_source_beats_the_clock,
                decisions::a_resolved_letter_says_by_whom_and_why,
                decisions::a_discarded_letter_says_by_whom_and_why,
                decisions::a_reopened_letter_waits_as_before,
                decisions::a_held_letter_cannot_be_discarded_until_released,
                decisions::a_decision_is_on_record,
                decisions::a_refused_decision_says_how_the_letter_stands_and_leaves_no_trace,
                decisions::a_decision_on_an_unknown_letter_leaves_no_trace,
                decisions::a_decision_moves_the_counters,
                decisions::two_people_discard_and_one_is_refused,
                operations::a_frozen_list_is_decided_in_chunks,
                operations::another_count_than_expected_decides_nothing,
                operations::too_many_letters_are_refused_before_all_are_frozen,
                operations::nothing_expected_and_nothing_found_is_done,
                operations::letters_captured_later_do_not_join,
                operations::a_letter_that_moved_meanwhile_is_skipped_with_the_reason,
                operations::a_letter_that_died_meanwhile_is_skipped,
                operations::a_letter_that_dies_between_two_chunks_is_listed_once,
                operations::relative_times_are_counted_from_the_opening,
                operations::words_and_values_select_together,
                operations::an_operation_is_on_record,
                operations::an_operation_whose_caller_went_away_is_dropped,
                operations::operations_wait_in_the_order_they_were_opened,
                operations::a_frozen_operation_goes_on_after_a_restart,
                paging::every_sort_and_page_size_meets_each_letter_once,
                paging::letters_that_come_in_while_paging_disturb_nothing,
                paging::letters_that_move_while_paging_disturb_nothing,
                paging::a_filtered_walk_meets_each_match_once,
                paging::totals_are_exact_or_at_least,
                paging::a_counted_total_is_the_total_of_its_rows,
                search::words_find_letters_by_how_they_begin,
                search::a_new_life_is_found_by_its_own_words,
                search::common_words_are_found_in_order,
                filters::a_filter_finds_what_it_means,
                claims::a_letter_is_claimed_by_one_run_at_a_time,
                claims::only_the_present_life_can_be_claimed,
                claims::a_claim_goes_forward_one_step_at_a_time,
                claims::a_confirmed_letter_is_resolved_on_its_evidence,
                claims::an_unclaimed_letter_waits_and_can_be_claimed_again,
                claims::an_ended_letter_is_discarded_on_its_evidence,
                claims::a_claim_is_settled_only_from_steps_that_allow_it,
                claims::a_death_ends_the_claim,
                claims::a_letter_that_is_not_pending_cannot_be_claimed,
                claims::many_runs_race_for_one_letter_and_one_gets_it,
                records::events_have_positions_in_commit_order,
                records::the_audit_log_is_read_backwards_in_pages,
                records::a_token_is_added_and_revoked_once,
                records::a_commit_wakes_those_who_wait,
                records::a_store_that_can_write_is_ready_and_leaves_no_trace,
                records::a_reset_forgets_all_but_the_tokens,
                records::a_reset_among_reports_keeps_the_books_right,
                records::statistics_count_by_status,
                records::a_reopened_store_has_kept_everything,
                records::a_closed_store_says_that_it_is_closed,
                model::any_sequence_of_actions_follows_the_machine,
            }
        }
    )+};
}

macro_rules! tests {
    ($opening:path => $($module:ident::$case:ident),+ $(,)?) => {$(
        #[test]
        fn $case() {
            $crate::rig::check($opening, $crate::$module::$case);
        }
    )+};
}

store_cases! {
    sqlite: crate::rig::sqlite,
}
